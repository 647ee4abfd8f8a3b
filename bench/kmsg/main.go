// The codec of franz-go (kmsg), timed by itself for `python -m bench.wire`.
//
// Each line of its input is a JSON object: either a message, {"response": BOOL, "key": N, "version": N, "body": BASE64},
// which gets the next number from 0 on; or a question, {"message": N, "direction": "decode" | "encode", "ns": N}: how many
// nanoseconds of a processor does one call take, measured for about so long? The answer is a line with the number; the
// answer to a message is the hex of what it encodes after decoding.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"syscall"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type line struct {
	Response  bool
	Key       int16
	Version   int16
	Body      []byte
	Message   int
	Direction string
	Ns        int64
}

type body interface {
	ReadFrom([]byte) error
	AppendTo([]byte) []byte
	SetVersion(int16)
}

type message struct {
	fresh func() body
	bytes []byte
	value body
}

func read(asked line) message {
	fresh := func() body {
		var found body
		if asked.Response {
			found = kmsg.ResponseForKey(asked.Key)
		} else {
			found = kmsg.RequestForKey(asked.Key)
		}
		found.SetVersion(asked.Version)
		return found
	}
	value := fresh()
	must(value.ReadFrom(asked.Body))
	return message{fresh, asked.Body, value}
}

func (m message) decode() {
	must(m.fresh().ReadFrom(m.bytes))
}

func (m message) encode() {
	m.value.AppendTo(nil)
}

func processorNs() int64 {
	var used syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return used.Utime.Nano() + used.Stime.Nano()
}

func took(call func(), calls int64) int64 {
	begin := processorNs()
	for i := int64(0); i < calls; i++ {
		call()
	}
	return processorNs() - begin
}

// The calls are doubled until they take as long as was asked for.
func perCall(call func(), ns int64) float64 {
	for calls := int64(1); ; calls *= 2 {
		if used := took(call, calls); used >= ns {
			return float64(used) / float64(calls)
		}
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	var messages []message
	input := bufio.NewReader(os.Stdin)
	for {
		text, err := input.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked line
		must(json.Unmarshal(text, &asked))
		switch asked.Direction {
		case "decode":
			fmt.Println(perCall(messages[asked.Message].decode, asked.Ns))
		case "encode":
			fmt.Println(perCall(messages[asked.Message].encode, asked.Ns))
		default:
			messages = append(messages, read(asked))
			fmt.Println(hex.EncodeToString(messages[len(messages)-1].value.AppendTo(nil)))
		}
	}
}
