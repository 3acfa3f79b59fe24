// Package translate holds the translations of model APIs into chat completions, for endpoints that give token ids only there.
//
// Its subpackages messages, responses and google read a request of their API and write it as a chat completion (package chat), and write a
// whole chat completion as a reply of their API. They make no network calls and keep no state: the same request and the same completion
// give the same reply.
package translate
