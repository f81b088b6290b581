package checkpoint

import (
	"encoding/json"
	"unicode/utf8"
)

// text is a string of any bytes, as names of files are. JSON has text only, so
// what is none is written as an object with its base64.
type text string

type base64Text struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(base64Text{[]byte(t)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var raw base64Text
		err := json.Unmarshal(data, &raw)
		*t = text(raw.Base64)
		return err
	}
	return json.Unmarshal(data, (*string)(t))
}
