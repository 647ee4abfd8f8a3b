"""Consumer groups: members, generations, assignments. `groups` finds the room of an API."""
