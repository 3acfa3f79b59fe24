// Package sequence makes training sequences from turns: a turn joins a sequence only if its prompt begins
// with exactly the tokens of the sequence, and only sampled tokens are trained on.
package sequence
