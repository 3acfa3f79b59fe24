// Package dialect reads agents' requests in each model API (chat completions, completions, responses,
// messages) and rewrites them for the endpoint: the model's name, bounds, and the members that ask for
// token ids and log probabilities.
//
// Its subpackages read replies (reply) and write them (render). For endpoints that return token ids only in chat
// completions, messages, responses and google translate a request of their API into a chat completion (chat), and a
// complete chat completion into a reply of their API. None makes network calls or keeps state.
package dialect
