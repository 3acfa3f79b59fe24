package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/network/listen"
	"github.com/rolloutd/rolloutd/internal/tool/toolserver"
	"github.com/rolloutd/rolloutd/internal/tool/webtool"
)

// handler returns the handler of a tool server, and opens the servers behind it.
func (o *toolOpener) handler(c config.ToolServer) (http.Handler, error) {
	options := toolserver.Options{Token: c.Token, Concurrency: c.Concurrency, Logger: o.log}
	if c.Web != nil {
		tools, err := webTools(*c.Web)
		if err != nil {
			return nil, err
		}

		options.Sources = append(options.Sources, toolserver.Source{Name: "web", Source: tools})
	}

	behind := &toolOpener{section: "tool_server.servers", log: o.log}
	o.closers = append(o.closers, behind.close)

	for name, source := range sorted(c.Servers) {
		s, err := behind.server(name, source)
		if err != nil {
			return nil, err
		}

		options.Sources = append(options.Sources, toolserver.Source{Name: name, Source: s})
	}

	return toolserver.New(options).Handler(), nil
}

func webTools(c config.WebTools) (*webtool.Tools, error) {
	if c.Missing != nil {
		return nil, c.Missing
	}

	policy, err := egress.Parse(c.AllowHosts)
	if err != nil {
		return nil, fmt.Errorf("tool_server.web.allow_hosts: %w", err)
	}

	return webtool.New(webtool.Options{
		SearchURL: c.SearchURL,
		SearchKey: c.SearchKey,
		Pages:     policy.Setting("tool_server.web.allow_hosts"),
	}), nil
}

// toolServerTier serves the tool server and passes its address to at.
func toolServerTier(c config.ToolServer, log *slog.Logger, at func(address string)) tier.Tier {
	return tier.Tier{Name: "tool server", Start: func(_ context.Context, parts *tier.Parts) error {
		open := toolOpener{log: log}

		parts.OnClose(open.close)

		h, err := open.handler(c)
		if err != nil {
			return err
		}

		if c.Token == "" {
			h = tier.OwnHost(nil, h)
		}

		l, err := listen.TCP("the tool server", c.Listen, "tool_server.listen (ROLLOUTD_TOOL_SERVER_LISTEN)")
		if err != nil {
			return err
		}

		at(l.Addr().String())
		parts.Add(tier.ServeHTTP(l, h))

		return nil
	}}
}
