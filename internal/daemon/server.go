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

// toolHandler is the tool server of a configuration.
func toolHandler(c config.ToolServer, log *slog.Logger, opened *closers) (http.Handler, error) {
	o := toolserver.Options{Token: c.Token, Concurrency: c.Concurrency, Logger: log}
	if c.Web != nil {
		tools, err := webTools(*c.Web)
		if err != nil {
			return nil, err
		}

		o.Sources = append(o.Sources, toolserver.Source{Name: "web", Source: tools})
	}

	for name, source := range sorted(c.Servers) {
		s, err := openTools(config.Config{}, name, source, "tool_server.servers."+name, log, opened)
		if err != nil {
			return nil, err
		}

		o.Sources = append(o.Sources, toolserver.Source{Name: name, Source: s})
	}

	return toolserver.New(o).Handler(), nil
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
		var opened closers

		parts.OnClose(opened.close)

		h, err := toolHandler(c, log, &opened)
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
