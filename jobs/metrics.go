package jobs

import (
	"github.com/prometheus/client_golang/prometheus"

	"wending/db"
	"wending/jobs/agent/protocol"
)

// Metrics holds the Prometheus metrics of a worker.
type Metrics struct {
	calls       *prometheus.CounterVec
	latency     *prometheus.HistogramVec
	tokens      *prometheus.CounterVec
	lanesBusy   prometheus.Gauge
	lostUnits   prometheus.Counter
	lateResults prometheus.Counter
}

// NewMetrics registers the metrics of a worker and of its queue.
func NewMetrics(registry prometheus.Registerer, queue *Queue) *Metrics {
	m := &Metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "wending_agent_calls_total",
			Help: "Calls by outcome, SUCCEEDED or the error code, by kind of target and protocol."},
			[]string{"outcome", "kind", "protocol"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "wending_agent_call_seconds", Help: "Time from a call's start to the answer's last byte.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 2400, 3600}}, []string{"kind",
			"protocol"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "wending_tokens_total", Help: "Tokens that calls used, as the targets report them."}, []string{"direction",
			"kind", "protocol"}),
		lanesBusy: prometheus.NewGauge(prometheus.GaugeOpts{Name: "wending_lanes_busy",
			Help: "Busy lanes in this process."}),
		lostUnits: prometheus.NewCounter(prometheus.CounterOpts{Name: "wending_lost_units_total",
			Help: "Units requeued after their worker died."}),
		lateResults: prometheus.NewCounter(prometheus.CounterOpts{Name: "wending_late_results_total",
			Help: "Results rejected because another worker had the unit."}),
	}
	registry.MustRegister(m.calls, m.latency, m.tokens, m.lanesBusy, m.lostUnits, m.lateResults)
	registry.MustRegister(queueMetrics{queue})
	return m
}

// queueMetrics asks Redis for the metrics of the queues whenever Prometheus collects them.
type queueMetrics struct{ queue *Queue }

var (
	redisUp    = prometheus.NewDesc("wending_redis_up", "1 if Redis answers, 0 if it does not.", nil, nil)
	queueDepth = prometheus.NewDesc("wending_queue_depth", "Jobs waiting in Redis; missing while it does not answer.",
		[]string{"queue"}, nil)
)

// Describe implements prometheus.Collector.
func (m queueMetrics) Describe(all chan<- *prometheus.Desc) { all <- redisUp; all <- queueDepth }

// Collect implements prometheus.Collector.
func (m queueMetrics) Collect(all chan<- prometheus.Metric) {
	up := 1.0
	for _, name := range []string{QueueEvaluation, QueueControl} {
		depth, err := m.queue.depth(name)
		if err != nil {
			up = 0
			break
		}
		all <- prometheus.MustNewConstMetric(queueDepth, prometheus.GaugeValue, float64(depth), name)
	}
	all <- prometheus.MustNewConstMetric(redisUp, prometheus.GaugeValue, up)
}

// CallEnded implements crew.Observer. Targets are labelled by kind and protocol only: their names are chosen by
// users and unbounded.
func (m *Metrics) CallEnded(target db.Target, answer protocol.Answer) {
	outcome, kind := answer.ErrorCode, string(target.Kind)
	if outcome == "" {
		outcome = string(answer.Status)
	}
	m.calls.WithLabelValues(outcome, kind, target.Protocol).Inc()
	m.latency.WithLabelValues(kind, target.Protocol).Observe(answer.Latency.Seconds())
	for direction, tokens := range map[string]*int{"input": answer.Usage.Input, "output": answer.Usage.Output} {
		if tokens != nil {
			m.tokens.WithLabelValues(direction, kind, target.Protocol).Add(float64(*tokens))
		}
	}
}

// LateResult implements crew.Observer.
func (m *Metrics) LateResult() { m.lateResults.Inc() }
