// Package bytestring writes strings of any bytes, as names of files are, as JSON.
package bytestring

import (
	"encoding/json"
	"unicode/utf8"
)

// String is a string of any bytes. JSON has text only, so what is none is written as
// an object with its base64.
type String string

type encoded struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (s String) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(s)) {
		return json.Marshal(string(s))
	}
	return json.Marshal(encoded{[]byte(s)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *String) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var raw encoded
		err := json.Unmarshal(data, &raw)
		*s = String(raw.Base64)
		return err
	}
	return json.Unmarshal(data, (*string)(s))
}
