package secret

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"unicode/utf8"

	"aether/sandbox"
)

// MaxValue bounds a value in bytes.
const MaxValue = 64 << 10

// redacted stands for every value that is printed, logged or encoded.
const redacted = "[secret]"

// Value is the value of a secret. It prints, logs and encodes as [secret]; Reveal alone
// gives it. The zero value is none.
type Value struct {
	// text is a function because package fmt looks into unexported fields without asking
	// them, and follows pointers. Of a function it prints the address.
	text func() *[]byte
}

// NewValue copies a text that can be a value: 1 byte to MaxValue of UTF-8 without control
// characters, since it goes into headers of HTTP. Errors: Invalid for the field value; none
// of them has a part of the text.
func NewValue(text []byte) (Value, error) {
	switch {
	case len(text) == 0:
		return Value{}, sandbox.Invalidf("value", "it is empty")
	case len(text) > MaxValue:
		return Value{}, sandbox.Invalidf("value", "its %d bytes are more than %d", len(text), MaxValue)
	case string(text) == redacted:
		return Value{}, sandbox.Invalidf("value", "it is what stands for a secret in the place of its value")
	}
	for rest := text; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError { // also where JSON has put it for what is no text
			return Value{}, sandbox.Invalidf("value", "it is not text in UTF-8")
		}
		if r < ' ' && r != '\t' || r == 0x7f {
			return Value{}, sandbox.Invalidf("value", "it holds a line break or another control character, which no header can")
		}
		rest = rest[size:]
	}
	held := slices.Clone(text)
	return Value{func() *[]byte { return &held }}, nil
}

// Reveal gives the value itself, which is good until Clear. Whoever makes a string of it
// has a copy that nobody can clear.
func (v Value) Reveal() []byte {
	if v.text == nil {
		return nil
	}
	return *v.text()
}

// IsZero says that there is no value.
func (v Value) IsZero() bool { return len(v.Reveal()) == 0 }

// Clear overwrites the value, of which every copy is then none. It must not run beside
// other methods.
func (v Value) Clear() {
	if v.text != nil {
		held := v.text()
		clear(*held)
		*held = nil
	}
}

// Format prints [secret], whatever the verb.
func (v Value) Format(to fmt.State, _ rune) {
	// The printer has nobody to tell of an error.
	_, _ = io.WriteString(to, redacted)
}

// String is [secret], for those who ask without package fmt.
func (v Value) String() string { return redacted }

// LogValue logs [secret].
func (v Value) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText encodes [secret].
func (v Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON encodes [secret].
func (v Value) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// UnmarshalJSON reads a value from a JSON string. Its errors have no part of the text.
func (v *Value) UnmarshalJSON(text []byte) error {
	var plain *string
	if err := json.Unmarshal(text, &plain); err != nil {
		return sandbox.Invalidf("value", "it is not a string")
	}
	if plain == nil {
		return nil // null leaves it as it was, as everywhere in JSON
	}
	read, err := NewValue([]byte(*plain))
	if err != nil {
		return err
	}
	*v = read
	return nil
}
