package bytestring

import (
	"encoding/json"
	"testing"
)

func TestString(t *testing.T) {
	for value, want := range map[String]string{"": `""`, "näme": `"näme"`, "a\xff": `{"base64":"Yf8="}`} {
		data, err := json.Marshal(value)
		if err != nil || string(data) != want {
			t.Errorf("%q is %s, %v", value, data, err)
		}
		var again String
		if err := json.Unmarshal(data, &again); err != nil || again != value {
			t.Errorf("%s is %q, %v", data, again, err)
		}
	}
	for _, bad := range []string{`1`, `{"base64":1}`, `["a"]`} {
		var s String
		if json.Unmarshal([]byte(bad), &s) == nil {
			t.Errorf("%s is %q", bad, s)
		}
	}
}
