// Package sequence makes training sequences of turns: a turn joins a sequence only where its prompt begins with exactly the tokens of
// the sequence, and only sampled tokens are trained on.
package sequence
