// Package gateway is the model proxy of a host. It serves each sandbox's model channel, forwards the agent's calls to the
// endpoint of that rollout, and keeps a record of every call.
//
// A call is completed before it is answered: the gateway reads the upstream's whole reply, retrying what is worth a retry
// inside the call's budget, writes the record and syncs it, and only then answers the agent. So the agent never sees half
// a reply, and what it saw is on disk. An abort closes the upstream request at once. The real API key is opened here alone,
// and appears nowhere but in the headers of upstream requests.
//
// A route is one agent sandbox's way to its model. Routes are journalled; a gateway that starts again serves them again,
// and a call that had no answer yet comes back under the same call id.
package gateway
