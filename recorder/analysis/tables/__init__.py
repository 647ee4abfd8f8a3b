"""The tables of a capture: functions that make a DataFrame of the capture's frames and events, each declared once.

frames       the capture's own tables, as scans
answers      what each answer says of errors and waits
exchanges    requests and their answers, joined only where they must be
errors       a row for each code in an answer
happenings   sessions, connections, gaps: of events alone
names        ids of topics and clusters; the tables of bodies with names in them
clients      who the clients are, what they speak, what becomes of it at Kafka 4
topic_use    who writes and who reads each topic
"""
