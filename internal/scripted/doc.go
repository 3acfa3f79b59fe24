// Package scripted is a model server that plays a script: for demos without a model, for tests that need to know every token, and
// for load. It speaks chat completions, the Responses API and the Anthropic Messages API.
//
// It is stateless. Which script is played follows from the instruction (the last user message), which turn from the number
// of assistant messages since; so any number of agents may talk to one server at once, and an agent that asks again
// gets the same answer. The one thing it counts is how often a fault with `times` was shown.
//
// Replies look as vLLM's do, streamed or whole: log-probabilities and token ids where asked for. The ids are made up but
// behave: equal text has equal ids, pieces join to the text, and a conversation's next prompt begins with the last prompt
// followed by its completion, as long as the agent sends back what it got.
package scripted
