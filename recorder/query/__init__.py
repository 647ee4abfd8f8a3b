"""The filter language: one for all views of a capture, and for the choice of a replay.

    api == Produce and topic ~ "ord*" and size > 64KiB and error

    fields      the fields that a filter may name: kind of value, what has one, meaning
    values      what a user writes for a value -> the value
    syntax      a filter as a tree of conditions
    language    text -> tree; errors point at the place; what may come next, for a shell
    evaluation  tree -> predicate of an exchange and its elements, with three results: yes, no, unknown
    columns     what of a tree the columns of `frames` decide before a row is made
    shorthand   flags of commands as conditions

Words of this room:

    subject     what a filter passes or not: an exchange, a frame, a record; a head, and elements
    head        what is said once of a subject: api, client, size, latency
    element     a partition, a batch, a member, a record that a message names, with what the message says of the whole
    unknown     a value that was masked, left out or can't be read: no condition on it holds, nor does its `not`

A subject passes if one and the same element meets all conditions on elements. `not` means that no element does.
This room opens no file and no frame.
"""
