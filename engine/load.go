package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
	"github.com/bulkhead-llm/bulkhead/engine/kernel"
	"github.com/bulkhead-llm/bulkhead/engine/mem"
	"github.com/bulkhead-llm/bulkhead/engine/parallel"
)

// load makes a model of a file, which it takes over: on an error the file is closed.
func load(f *gguf.File, pool *parallel.Pool, progress func(done, total int64)) (*model, error) {
	m, err := newModel(f, pool, progress)
	if err != nil {
		f.Close()
		return nil, err
	}
	return m, nil
}

func newModel(f *gguf.File, pool *parallel.Pool, progress func(done, total int64)) (*model, error) {
	name, spec, err := readSpec(f)
	if err != nil {
		return nil, err
	}
	m := &model{file: f, spec: spec, scale: float32(1 / math.Sqrt(float64(spec.HeadSize)))}
	l := &loader{file: f, used: map[string]bool{}, byType: map[string]int64{}}
	if err := m.collect(l); err != nil {
		return nil, err
	}
	data, release, err := mem.Alloc(l.bytes)
	if err != nil {
		return nil, err
	}
	m.release = release
	for _, p := range l.packs {
		p.to.Data = data[p.at:][:p.to.Type.PackedBytes(p.to.Rows, p.to.Cols)]
	}
	w := newLoading(l, f, progress)
	pool.Run(w, len(w.tasks), 1)
	title, _ := f.String("general.name")
	m.info = Info{
		Name: title, Arch: name, Fingerprint: w.fingerprint(f, name), Window: bulkhead.Tokens(spec.Window), Vocab: spec.Vocab,
		Layers: spec.Layers, KVHeads: spec.KVHeads, HeadSize: spec.HeadSize,
		Params: l.params, WeightBytes: int64(l.bytes), Quantization: l.quantization(),
	}
	return m, nil
}

// loading is the work of loading, cut into tasks for threads: parts of matrices to pack, and tensors to hash.
type loading struct {
	tasks   []task
	tensors []gguf.Tensor // by name
	hashes  [][sha256.Size]byte

	mu          sync.Mutex
	done, total int64 // bytes
	progress    func(done, total int64)
}

// task packs rows [from,to) of a matrix, or hashes a tensor.
type task struct {
	to       *kernel.Weight
	tensor   *gguf.Tensor
	from, up int
	hash     int
	bytes    int64
}

// packRows is how many rows a task packs: a multiple of the panels' 16.
const packRows = 64 * kernel.PanelRows

func newLoading(l *loader, f *gguf.File, progress func(done, total int64)) *loading {
	w := &loading{tensors: f.Tensors(), progress: progress}
	slices.SortFunc(w.tensors, func(a, b gguf.Tensor) int { return strings.Compare(a.Name, b.Name) })
	w.hashes = make([][sha256.Size]byte, len(w.tensors))
	for i := range w.tensors {
		t := &w.tensors[i]
		w.tasks = append(w.tasks, task{tensor: t, hash: i, bytes: int64(len(t.Data))})
	}
	for _, p := range l.packs {
		row := p.to.Type.RowBytes(p.to.Cols)
		for from := 0; from < p.to.Rows; from += packRows {
			up := min(p.to.Rows, from+packRows)
			w.tasks = append(w.tasks, task{to: p.to, tensor: p.from, from: from, up: up, bytes: int64((up - from) * row)})
		}
	}
	slices.SortStableFunc(w.tasks, func(a, b task) int { return int(min(b.bytes, 1<<30) - min(a.bytes, 1<<30)) }) // long ones first
	for _, t := range w.tasks {
		w.total += t.bytes
	}
	return w
}

// Do is a parallel.Job over tasks.
func (w *loading) Do(_, from, to int) {
	for _, t := range w.tasks[from:to] {
		if t.to == nil {
			w.hashes[t.hash] = sha256.Sum256(t.tensor.Data)
		} else {
			k, cols := t.to.Type, t.to.Cols
			dst := t.to.Data[k.PackedBytes(t.from, cols):][:k.PackedBytes(t.up-t.from, cols)]
			k.Pack(dst, t.tensor.Data[t.from*k.RowBytes(cols):t.up*k.RowBytes(cols)], t.up-t.from, cols)
		}
		w.report(t.bytes)
	}
}

func (w *loading) report(bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done += bytes
	if w.progress != nil {
		w.progress(w.done, w.total)
	}
}

// fingerprint is SHA-256 over all that decides what the KV of given tokens is: the architecture's own metadata and all
// tensors. Order in the file, names and descriptions, tokenizer and template do not count.
func (w *loading) fingerprint(f *gguf.File, arch string) [sha256.Size]byte {
	h := sha256.New()
	put := func(b []byte) {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	put([]byte("bulkhead/model/1"))
	put([]byte(arch))
	keys := f.Keys()
	slices.Sort(keys)
	for _, key := range keys {
		if strings.HasPrefix(key, arch+".") {
			v, _ := f.Value(key)
			put([]byte(key))
			put(v.AppendEncoding(nil))
		}
	}
	for i, t := range w.tensors {
		put([]byte(t.Name))
		shape := binary.LittleEndian.AppendUint32(nil, uint32(t.Type))
		for _, d := range t.Dims {
			shape = binary.LittleEndian.AppendUint64(shape, uint64(d))
		}
		put(shape)
		put(w.hashes[i][:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}
