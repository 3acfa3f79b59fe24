// Package dialect reads agents' requests in each model API (chat completions, completions, responses,
// messages) and rewrites them for the endpoint: the model's name, bounds, and the members that ask for
// token ids and log probabilities.
//
// Its subpackages read replies (reply, sse) and write them (render). It makes no network calls.
package dialect
