package store

import (
	"context"
	"path"
	"time"
)

// HostRecord says where the roles of a deployment reach a host.
type HostRecord struct {
	ID        string    `json:"id"`
	ToolsURL  string    `json:"tools_url"` // of its tool service
	StartedAt time.Time `json:"started_at"`
}

// PutHost records a host; its worker does so at each start.
func (s *Store) PutHost(ctx context.Context, h HostRecord) error {
	return s.PutJSON(ctx, hostKey(h.ID), h)
}

// Host returns the record of a host; fault.NotFound when its worker never started.
func (s *Store) Host(ctx context.Context, id string) (h HostRecord, err error) {
	return h, s.JSON(ctx, hostKey(id), &h)
}

func hostKey(id string) string { return path.Join("hosts", id+".json") }
