// Package tokens shows the training sequences of a trace token by token: as they were sampled, with log probability,
// loss mask and text, and where a sequence breaks, how the two spellings differ. Answers are bounded.
package tokens
