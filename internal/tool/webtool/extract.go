package webtool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"

	htmltomarkdown "github.com/JohannesKaufmann/html-to-markdown/v2"
	"golang.org/x/net/html/charset"

	"github.com/rolloutd/rolloutd/internal/text"
	"github.com/rolloutd/rolloutd/internal/tool"
)

const (
	maxPages = 5

	// bytes read of a page
	maxPageRead = 2 << 20

	// characters returned of a page
	maxPageText = 8000

	// characters
	maxError = 300
)

// page is the result for one URL.
type page struct {
	URL     string `json:"url"`
	Title   string `json:"title"`
	Content string `json:"content"`
	Error   string `json:"error,omitempty"`
}

// extract reads the pages in parallel. A page that cannot be read has an error of its own.
func (t *Tools) extract(ctx context.Context, urls []string) (tool.Result, error) {
	pages := make([]page, len(urls))

	var reading sync.WaitGroup
	for i, u := range urls {
		reading.Go(func() {
			content, err := t.read(ctx, u)
			title, _, _ := strings.Cut(strings.TrimLeft(content, "# \n"), "\n")

			pages[i] = page{URL: u, Title: text.Head(title, 200), Content: cut(content)}
			if err != nil {
				pages[i] = page{URL: u, Error: text.HeadUTF8(withoutURL(err).Error(), maxError)}
			}
		})
	}

	reading.Wait()

	return asJSON(map[string]any{"results": pages})
}

func cut(content string) string {
	head := text.HeadUTF8(content, maxPageText)
	if len(head) >= len(content) {
		return head
	}

	return head + fmt.Sprintf("\n[... %d bytes left out ...]", len(content)-len(head))
}

// dataURL matches an image embedded in a page.
var dataURL = regexp.MustCompile(`\(data:[^)]*\)`)

// read returns the text of a page.
func (t *Tools) read(ctx context.Context, address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", errors.New("must be an http or https URL")
	}

	u.User = nil

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return "", err
	}

	req.Header.Set("Accept", "text/html, text/plain, text/markdown, application/json")
	req.Header.Set("User-Agent", "rolloutd-web_extract")

	res, err := t.pages.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()

	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", res.StatusCode)
	}

	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		kind = "text/plain"
	}

	body, err := charset.NewReader(io.LimitReader(res.Body, maxPageRead), res.Header.Get("Content-Type"))
	if err != nil {
		return "", err
	}

	switch {
	case kind == "text/html" || kind == "application/xhtml+xml":
		markdown, err := htmltomarkdown.ConvertReader(body)
		return dataURL.ReplaceAllString(string(markdown), "(data URL left out)"), err
	case strings.HasPrefix(kind, "text/") || kind == "application/json" || kind == "application/xml":
		raw, err := io.ReadAll(body)
		return string(raw), err
	}

	return "", fmt.Errorf("content type %q is not text", kind)
}

// withoutURL removes net/http's prefix of an error: the URL, which may be long or contain a key.
func withoutURL(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}

	return err
}
