// Package convert rewrites a model file with its matrices in another type.
//
//	err := convert.Path("model-q8_0.gguf", "model.gguf", gguf.Q8_0, nil)
//
// Everything else stays: metadata, names, shapes and order. What has one dimension (norms) becomes F32; matrices whose
// rows are no whole blocks of the type stay as they are.
package convert

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bulkhead-llm/bulkhead/engine/gguf"
	"github.com/bulkhead-llm/bulkhead/engine/kernel"
)

// Types are the types that matrices can be converted to.
func Types() []gguf.Type {
	return []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_0, gguf.Q4_1}
}

// TypeNamed finds one of them by name, in upper or lower case.
func TypeNamed(name string) (gguf.Type, error) {
	var names []string
	for _, t := range Types() {
		if strings.EqualFold(t.String(), name) {
			return t, nil
		}
		names = append(names, t.String())
	}
	return 0, fmt.Errorf("no weight type %q to convert to: there are %s", name, strings.Join(names, ", "))
}

// Path converts one file to another. The new one appears when it is complete; a file of that name is replaced. progress,
// where there is one, is called with bytes written and the total before and after each tensor.
func Path(dst, src string, to gguf.Type, progress func(done, total int64)) error {
	f, err := gguf.Open(src)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := To(dst, f, to, progress); err != nil {
		return fmt.Errorf("%s: %w", src, err)
	}
	return nil
}

// To is Path for a file that is open.
func To(dst string, f *gguf.File, to gguf.Type, progress func(done, total int64)) error {
	w, err := File(f, to, progress)
	if err != nil {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(dst), ".convert-*")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) // fails when all went well
	_, err = w.WriteTo(out)
	if closed := out.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(out.Name(), 0o644); err != nil {
		return err
	}
	return os.Rename(out.Name(), dst)
}

// File is the converted file, ready to be written while f is open.
func File(f *gguf.File, to gguf.Type, progress func(done, total int64)) (*gguf.Writer, error) {
	t, ok := targets[to]
	if !ok {
		return nil, fmt.Errorf("%v is no type to convert to", to)
	}
	w := gguf.NewWriter()
	for _, key := range f.Keys() {
		if key != "general.alignment" { // the writer has its own
			v, _ := f.Value(key)
			w.Set(key, v)
		}
	}
	w.Set("general.file_type", t.fileType)
	if t.blockLen > 1 {
		w.Set("general.quantization_version", uint32(2))
	}
	p := &reporter{report: progress}
	for _, tensor := range f.Tensors() {
		if err := add(w, tensor, to, p); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// reporter counts what has been written.
type reporter struct {
	done, total int64
	report      func(done, total int64)
}

func (p *reporter) add(n int) {
	p.done += int64(n)
	if p.report != nil {
		p.report(p.done, p.total)
	}
}

// add adds one tensor in the type that it is to have.
func add(w *gguf.Writer, t gguf.Tensor, to gguf.Type, p *reporter) error {
	from, known := kernel.TypeOf(uint32(t.Type))
	if len(t.Dims) < 2 {
		to = gguf.F32
	}
	size, fits := to.RowBytes(t.Dims[0])
	if to == t.Type || known && !fits {
		p.total += int64(len(t.Data))
		w.AddFunc(t.Name, t.Type, t.Dims, func(out io.Writer) error {
			_, err := out.Write(t.Data)
			p.add(len(t.Data))
			return err
		})
		return nil
	}
	if !known {
		return fmt.Errorf("tensor %q has type %v, which cannot be read: %v can", t.Name, t.Type, kernel.Types())
	}
	p.total += int64(size * t.Rows())
	w.AddFunc(t.Name, to, t.Dims, func(out io.Writer) error {
		defer p.add(size * t.Rows())
		return rows(out, t, from, to)
	})
	return nil
}

// rows writes a tensor row by row.
func rows(out io.Writer, t gguf.Tensor, from *kernel.Type, to gguf.Type) error {
	x := make([]float32, t.Dims[0])
	bytes := from.RowBytes(len(x))
	var b []byte
	for r := range t.Rows() {
		from.Row(x, t.Data[r*bytes:][:bytes])
		for i, v := range x {
			if v-v != 0 {
				return fmt.Errorf("tensor %q has %v in row %d, column %d", t.Name, v, r, i)
			}
		}
		b = appendRow(b[:0], to, x)
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	return nil
}
