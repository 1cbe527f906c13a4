package strictyaml

import "testing"

type settings struct {
	Window int `yaml:"window"`
}

func TestUnmarshal(t *testing.T) {
	var s settings
	if err := Unmarshal([]byte("window: 7\n"), &s); err != nil || s.Window != 7 {
		t.Fatalf("%+v, %v", s, err)
	}
	for _, bad := range []string{"windwo: 7", "window: 7\nwindow: 8", "window: many", "!000 000", "[", "window: {"} {
		if err := Unmarshal([]byte(bad), &s); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte("window: 7"))
	f.Add([]byte("!000 000"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s settings
		_ = Unmarshal(data, &s)
		var m map[string]any
		_ = Unmarshal(data, &m)
	})
}
