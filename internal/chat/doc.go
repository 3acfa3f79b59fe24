// Package chat knows the OpenAI chat-completions wire format as far as a proxy needs it: change single members of a request
// and leave every other byte alone, read a streamed reply while it arrives, and put a whole chat.completion object together
// from it.
//
// Reading is by bytes, once, left to right: a reply of thousands of chunks must not become thousands of JSON trees. It is
// lenient where servers are sloppy (NaN and Infinity as numbers, invalid UTF-8) and strict where a slip would misalign
// tokens.
package chat
