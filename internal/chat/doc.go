// Package chat knows the wire formats in which models are called as far as a proxy needs them: OpenAI's chat completions,
// completions and responses, and Anthropic's messages. It changes single members of a request and leaves every other byte
// alone, reads a streamed reply while it arrives, puts the whole object together from it, and takes out of it what its reader
// did not ask for.
//
// Reading is by bytes, once, left to right: a reply of thousands of chunks must not become thousands of JSON trees. It is
// lenient where servers are sloppy (NaN and Infinity as numbers, invalid UTF-8) and strict where a slip would misalign
// tokens.
package chat
