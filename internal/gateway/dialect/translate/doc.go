// Package translate holds the translations of model APIs into chat completions, for endpoints that return token ids only there.
//
// Its subpackages messages, responses and google read a request of their API and write it as a chat completion (package chat), and write
// a whole chat completion as a reply of their API. They make no network calls and keep no state: the result depends only on the request
// and the completion.
package translate
