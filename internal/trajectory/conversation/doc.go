// Package conversation reads what an agent and its model said to each other from a trace, whichever model API the agent speaks.
package conversation
