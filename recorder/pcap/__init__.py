"""A capture from a packet dump: `kafka-wiretap import FILE FOLDER` (docs/pcap.md).

    commands     the command's options, checks and output
    dump         files -> packets; only this needs python-pcapng
    layers       packets -> segments of TCP, through link, VLAN and IP headers
    tcp          segments -> the bytes of both directions, in order, and what is lost of them
    looking      which connections speak Kafka, and which side is the broker
    heads        which bytes may be a request's or a response's head
    pickup       where frames begin again, behind lost bytes and in connections older than the dump
    connection   one Kafka connection, as the recorder's tap hears of it
    importing    all connections of a dump -> a session
    tls          connections that tshark decrypts by a log of keys
    pool         the memory that all connections share

The extra `pcap` installs python-pcapng.
"""
