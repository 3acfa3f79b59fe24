// Package access identifies the caller of a request and limits each caller to the rollouts that it may see and end.
package access
