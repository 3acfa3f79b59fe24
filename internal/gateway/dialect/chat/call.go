// Package chat has the chat completions into which requests of other model APIs are translated, and from
// which their replies are made.
package chat

// Call is a request of another API as a chat completion.
type Call struct {
	Body []byte
	// Dropped are the names of tools that only the API's own servers run.
	Dropped []string
	// Reply returns a completion as a reply of the API, one object. It is safe for concurrent use.
	Reply func(Completion) []byte
}
