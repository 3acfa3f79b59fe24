// Package continuation continues conversations by token ids: the next prompt is the ids so far, those that the model
// sampled included, and what the endpoint's own chat template has after the reply. Sampled tokens are never tokenised
// again, so a conversation is one sequence.
//
// It knows no model, template or special token. What follows a reply is found with small conversations that the
// endpoint tokenises, and an audit compares prompts with the template's own. Where a conversation cannot be continued
// in this way, the error is a fault.NotFound that begins with a word of Reasons.
package continuation
