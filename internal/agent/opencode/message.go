package opencode

import (
	"encoding/json"
	"time"
)

// message has the fields that this package reads of OpenCode's {info, parts}.
type message struct {
	Info  messageInfo       `json:"info"`
	Parts []json.RawMessage `json:"parts"`
}

type messageInfo struct {
	ID        string          `json:"id"`
	SessionID string          `json:"sessionID"`
	Role      string          `json:"role"`
	Finish    string          `json:"finish"`
	Time      messageTime     `json:"time"`
	Error     json.RawMessage `json:"error"`
}

type messageTime struct {
	// milliseconds
	Created   int64 `json:"created"`
	Completed int64 `json:"completed"`
}

// part has the fields that this package reads of a message's part.
type part struct {
	Type  string   `json:"type"`
	Text  string   `json:"text"`
	Time  partTime `json:"time"`
	State struct {
		Status string   `json:"status"`
		Time   partTime `json:"time"`
	} `json:"state"`
}

type partTime struct {
	// milliseconds
	Start int64 `json:"start"`
	End   int64 `json:"end"`
}

// settled reports whether the message is final.
func (m *messageInfo) settled() bool { return m.Time.Completed > 0 || m.failed() }

func (m *messageInfo) failed() bool { return len(m.Error) > 0 && string(m.Error) != "null" }

// lastChange is the newest time of the message, or zero.
func (m *messageInfo) lastChange() time.Time {
	newest := max(m.Time.Created, m.Time.Completed)
	if newest == 0 {
		return time.Time{}
	}

	return time.UnixMilli(newest)
}

// errorText is the name and message of OpenCode's error object.
func errorText(raw json.RawMessage) string {
	var e struct {
		Name string `json:"name"`
		Data struct {
			Message string `json:"message"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &e); err != nil || e.Name == "" {
		return string(raw)
	}

	if e.Data.Message == "" {
		return e.Name
	}

	return e.Name + ": " + e.Data.Message
}
