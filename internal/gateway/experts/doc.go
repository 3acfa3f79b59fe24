// Package experts reads the routed experts of a reply: for each token those that the engine's router chose. vLLM writes
// an array of numpy's file format, SGLang plain numbers of 32 bits; both in base64.
package experts
