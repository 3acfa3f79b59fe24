//go:build !race

package envserver_test

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/testkit/jsclient"
)

// audit returns a script that returns what axe finds wrong in an element: the rule, and the element at fault.
func audit(element string) string {
	return `axe.run(` + element + `, {resultTypes: ["violations"]}).then((found) =>
	found.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html.slice(0, 160) + ": " + (n.any[0] ?? n.all[0] ?? n.none[0])?.message)))`
}

// axe finds nothing wrong on any page, and any tab of a rollout, in the light and the dark scheme.
func TestPageIsAccessible(t *testing.T) {
	t.Parallel()

	axe := jsclient.Read(t, jsclient.Axe, "axe.min.js")
	producers := newFakeProducers()
	producers.states["math"] = mathProducer()

	r, groups := withGroups(t, withWeb, func(o *envserver.Options) { o.Producers = producers })
	r.record(mendingSession())

	status, _, out := r.do("POST", "/groups", groupBody("siblings"))
	require.Equal(t, http.StatusAccepted, status, out)
	groups.finish("siblings", new(1.0), new(0.5))

	for _, id := range []string{"siblings-0", "siblings-1", "math-0"} {
		r.begin(id)
	}

	b := newBrowser(t, 1440, 1000)
	b.run(chromedp.Navigate(r.url + "/web/"))

	ready, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](axe+`; typeof axe.run === "function"`))
	require.NoError(t, err)
	require.True(t, ready)

	// what surrounds a tab is the same in each
	tab := func(name string) string { return `document.querySelector("#panel-` + name + `")` }

	for _, page := range []struct{ at, ready, audited string }{
		{"#/run", `document.querySelector("#run-fields label")`, "document"},
		{"#/playground", `document.querySelector("#fields label")`, "document"},
		{"#/hosts", `document.querySelector("#host-list td")`, "document"},
		{"#/rollouts", `document.querySelector("#list a")`, "document"},
		{"#/groups", `document.querySelector("#group-list a")`, "document"},
		{"#/groups/siblings", `document.querySelector("#group td")`, "document"},
		{"#/producers", `document.querySelector("#producer-list a")`, "document"},
		{"#/producers/math", `document.querySelector("#producer .curves")`, "document"},
		{"#/tasks", `document.querySelector("#sets p")`, "document"},
		{"#/tasks/sorted", `document.querySelector("#task h2")`, "document"},
		{"#/rollouts/siblings-0", `document.querySelector("#rollout [data-turn='6']")`, "document"},
		{"#/rollouts/siblings-0?tab=calls", `document.querySelector("#panel-calls td")`, tab("calls")},
		{"#/rollouts/siblings-0?tab=verifier", `document.querySelector("#panel-verifier dt")`, tab("verifier")},
		{"#/rollouts/siblings-0?tab=tokens", `document.querySelector("#panel-tokens .break")`, tab("tokens")},
		{"#/rollouts/siblings-0?tab=files", `document.querySelector("#panel-files .tree")`, tab("files")},
		{"#/rollouts/siblings-0?tab=logs", `document.querySelector("#panel-logs summary")`, tab("logs")},
		{"#/rollouts/siblings-0?tab=data", `document.querySelector("#panel-data pre")`, tab("data")},
	} {
		b.run(chromedp.Navigate(r.url + "/web/" + page.at)) // of the same document, which keeps axe
		b.eventually(`Boolean(` + page.ready + `?.checkVisibility())`)

		for _, scheme := range []string{"light", "dark"} {
			b.run(setColorScheme(scheme))

			wrong, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](audit(page.audited), chromedp.EvalAwaitPromise))
			require.NoError(t, err)
			assert.Emptyf(t, wrong, "%s, %s", page.at, scheme)
		}
	}
}
