package render

import (
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// assembleResponse returns the response object of the event that ends a stream, which has the whole
// response. From a stream that broke off it assembles the part that arrived.
func assembleResponse(raw []byte) (*response, error) {
	raw = tidy(raw)
	if rawjson.IsObject(raw) {
		return &response{raw}, nil
	}

	d := responseDraft{head: []byte("{}")}

	for data := range reply.SSEEvents(raw) {
		whole := rawjson.MemberOf(data, "response")
		if len(whole) == 0 || whole[0] != '{' {
			continue
		}

		d.head = whole

		switch rawjson.TextOf(rawjson.MemberOf(data, "type")) {
		case "response.completed", "response.incomplete":
			return &response{whole}, nil
		}
	}

	for data := range reply.SSEEvents(raw) {
		if d.add(data) != nil {
			// the stream broke off here
			break
		}
	}

	return d.response()
}

// responseDraft is an incomplete response.
type responseDraft struct {
	// the latest response object of the stream
	head  []byte
	items []*outputItem
}

func (d *responseDraft) response() (*response, error) {
	o, err := rawjson.ParseObject(d.head)
	if err != nil || len(d.items) == 0 {
		return &response{d.head}, err
	}

	var output []byte

	for i, item := range d.items {
		if i > 0 {
			output = append(output, ',')
		}

		output = append(output, item.bytes()...)
	}

	o.Set("output", rawjson.AppendList(nil, output))

	return &response{o.Bytes()}, nil
}

func (d *responseDraft) add(data []byte) error {
	o, err := rawjson.ParseObject(data)
	if err != nil {
		return err
	}

	kind := rawjson.TextOf(o.Or("type", ""))
	if kind == "response.output_item.added" || kind == "response.output_item.done" {
		item, err := d.item(rawjson.NumberIn(o, "output_index"))
		if err != nil {
			return err
		}

		item.done = kind == "response.output_item.done"
		item.object, err = rawjson.ParseObject(o.Or("item", "{}"))

		return err
	}

	for _, f := range responseFlows() {
		if f.event == kind {
			item, err := d.item(rawjson.NumberIn(o, "output_index"))
			if err != nil {
				return err
			}

			return item.add(f, rawjson.NumberIn(o, f.number), rawjson.TextOf(o.Or("delta", "")))
		}
	}

	return nil
}

// item finds or adds the item of that index.
func (d *responseDraft) item(index int64) (*outputItem, error) {
	for _, item := range d.items {
		if item.index == index {
			return item, nil
		}
	}

	if len(d.items) == maxParts {
		return nil, errUnreadable
	}

	item := &outputItem{index: index, object: rawjson.NewObject()}
	d.items = append(d.items, item)

	return item, nil
}
