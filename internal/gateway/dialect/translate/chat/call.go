// Package chat is what requests and replies of other model APIs are translated into and from: chat completions.
package chat

// Call is a request of another API as a chat completion.
type Call struct {
	Body []byte
	// Dropped are tools that only the API's own servers run: their names.
	Dropped []string
	// Reply writes a completion as a reply of the API, one object. It is safe for concurrent use.
	Reply func(Completion) []byte
}
