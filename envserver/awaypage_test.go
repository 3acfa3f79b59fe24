//go:build !race

package envserver_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// A page that was opened while the server was away is there when the server is, and an address that a person has mistyped
// says so.
func TestPageOpensWhenTheServerIsBack(t *testing.T) {
	t.Parallel()

	r := start(t, withWeb)
	r.record(mendingSession())
	r.begin("mend-parser-7")

	b := newBrowser(t, 1280, 900)
	b.run(chromedp.Navigate(r.url + "/web/#/groups"))
	b.waitForText("#group-list", "Mean reward")

	for hash, want := range map[string]struct{ selector, text string }{
		"#/rollouts/mend-parser-7": {"#rollout .turns", "Turn 1"},
		"#/tasks":                  {"#sets", "Task sets"},
		"#/run":                    {"#run-fields", "instruction"},
	} {
		b.eventually(`(() => {
			window.ask ??= window.fetch;
			window.fetch = () => Promise.reject(new TypeError("away"));
			location.hash = "` + hash + `";
			return true;
		})()`)
		b.waitForText("#alert", "The server does not answer. The page goes on when it does.")
		b.eventually(`(window.fetch = window.ask, true)`)
		b.waitForText(want.selector, want.text)
		b.eventually(`document.querySelector("#alert").hidden`)
	}

	b.eventually(`(location.hash = "#/rollouts/%E0%A4%A", true)`)
	b.waitForText("#alert", "no rollout")
}
