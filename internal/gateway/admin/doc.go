// Package admin is the gateway's HTTP API: routes for the roles of a deployment, and pauses and traces for trainers.
package admin
