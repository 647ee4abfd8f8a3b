"""The proxy. Its words, one meaning each; they are the recorder's too.

frame        a 4-byte length and that many bytes: one request or one response
exchange     a request frame and the response frame with its correlation id (or none: acks=0, connection lost)
connection   one client socket and the broker socket opened for it
node         a broker as the cluster names it: node id, host, port
listener     a local address that stands for one node, or for bootstrap
advertised   the address that clients are told; may differ from the address listened on
capture      a folder of recorded frames; session: the frames of one proxy run (or worker) within it
gap          a stretch of traffic that was not recorded, itself recorded as a row
opaque       forwarded without being understood
latency      last byte of the request arrived to first byte of the response arrived

The rooms, outermost first:

cli, worker  the command line; a worker's process. wiring: the recorder, connected with the proxy
settings     arguments, a file, the environment -> the values of config
net          sockets: the only room that knows trio
metrics      exchanges as numbers, numbers as pages
tls          certificates, without sockets
config       the settings' values
observer     what the proxy reports to the recorder, as both know it
rewrite      which bytes of a frame change, and into what
conversation one connection's exchanges
mapping      node <-> listener <-> advertised address
schema       what a setting is
option_types what a command's option is, of the same kinds
wire         bytes <-> values
tools        the protocol shown to people
"""
