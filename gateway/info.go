package gateway

import (
	"net/http"
	"strings"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// models is GET /v1/models.
func (g *Gateway) models(c *call) *bulkhead.Refusal {
	c.row.failed(c.json(http.StatusOK, openai.ModelList{Object: "list", Data: []openai.Model{g.modelRow()}}))
	return nil
}

// model is GET /v1/models/NAME.
func (g *Gateway) model(c *call) *bulkhead.Refusal {
	if ref := g.checkModel(strings.TrimPrefix(c.r.URL.Path, modelsPath)); ref != nil {
		return ref
	}
	c.row.failed(c.json(http.StatusOK, g.modelRow()))
	return nil
}

func (g *Gateway) modelRow() openai.Model {
	pools := g.pools()
	return openai.Model{ID: g.cfg.Model.Name, Object: "model", Created: g.cfg.Model.Created.Unix(), OwnedBy: "bulkhead",
		MaxModelLen: pools.Window, Bulkhead: pools}
}

func (g *Gateway) pools() openai.Pools {
	l := g.cfg.Backend.Limits()
	return openai.Pools{Window: int(l.Window), ModelWindow: int(l.ModelWindow), PrefillPool: int(l.PrefillPool),
		DecodePool: int(l.DecodePool), PageTokens: l.PageTokens}
}

// serverInfo is the body of GET /server_info. It holds what an operator set and what the model is, and nothing of what
// tenants do: that is in /metrics.
type serverInfo struct {
	Version  string       `json:"version"`
	Draining bool         `json:"draining"`
	Model    modelInfo    `json:"model"`
	Pools    openai.Pools `json:"pools"`
	Limits   limitsInfo   `json:"limits"`
}

type modelInfo struct {
	Name         string `json:"name"`
	Architecture string `json:"architecture"`
	Quantization string `json:"quantization"`
	Parameters   int64  `json:"parameters"`
	WeightBytes  int64  `json:"weight_bytes"`
	Vocabulary   int    `json:"vocabulary"`
	Kernels      string `json:"kernels"`
	Threads      int    `json:"threads"`
}

type limitsInfo struct {
	Queue          int     `json:"queue"`
	QueueTenant    int     `json:"queue_tenant"`
	Running        int     `json:"running"`
	Chunk          int     `json:"chunk_tokens"`
	BodyBytes      int64   `json:"body_bytes"`
	RequestTimeout float64 `json:"request_timeout_seconds"` // 0: none
	DrainTimeout   float64 `json:"drain_timeout_seconds"`
}

func (g *Gateway) serverInfo(c *call) *bulkhead.Refusal {
	m, l := g.cfg.Model, g.cfg.Backend.Limits()
	c.row.failed(c.json(http.StatusOK, serverInfo{
		Version:  g.cfg.Version,
		Draining: g.draining.Load(),
		Model: modelInfo{Name: m.Name, Architecture: m.Arch, Quantization: m.Quantization, Parameters: m.Parameters,
			WeightBytes: m.WeightBytes, Vocabulary: g.cfg.Text.Size(), Kernels: m.Kernels, Threads: m.Threads},
		Pools: g.pools(),
		Limits: limitsInfo{Queue: l.Queue, QueueTenant: l.QueueTenant, Running: l.Running, Chunk: int(l.Chunk), BodyBytes: g.cfg.MaxBody,
			RequestTimeout: l.RequestTimeout.Seconds(), DrainTimeout: l.DrainTimeout.Seconds()},
	}))
	return nil
}

// health is GET /health: 200 while requests are taken, 503 while the server drains or has no workers.
func (g *Gateway) health(c *call) *bulkhead.Refusal {
	if ref := g.checkDraining(); ref != nil {
		return ref
	}
	if ref := g.checkReady(); ref != nil {
		return ref
	}
	c.row.failed(c.json(http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"}))
	return nil
}
