package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
)

// The queues. Each has its own server, because asynq cannot limit the concurrency of one queue.
const (
	// QueueEvaluation carries lanes; EVALUATION_CONCURRENCY of them run at once.
	QueueEvaluation = "evaluation"
	// QueueControl carries short jobs that must not wait behind lanes.
	QueueControl = "control"
)

// launchArgs are the arguments of every job of a launch.
type launchArgs struct {
	LaunchID uuid.UUID `json:"launch_id"`
}

// Queue enqueues jobs in Redis. A job is a wake-up: it may be lost, duplicated or late, and reconcile makes up for
// that. So asynq does not retry jobs, and jobs need not be unique.
type Queue struct {
	// here passes launches to a worker in this process; without one, nothing receives from it.
	here      chan uuid.UUID
	client    *asynq.Client
	inspector *asynq.Inspector
	redis     asynq.RedisConnOpt
}

// NewQueue returns the queue on the Redis at address; it connects when it is first used.
func NewQueue(address string) (*Queue, error) {
	redis, err := parseRedis(address)
	if err != nil { // the error would contain the address with its password
		return nil,
			errors.New(
				"REDIS_URL is not a valid address (redis://, rediss://, redis-socket://, redis-sentinel:// or redis-cluster://); " +
					"special characters in its password must be percent-encoded")
	}
	return &Queue{here: make(chan uuid.UUID), client: asynq.NewClient(redis), inspector: asynq.NewInspector(redis),
		redis: redis}, nil
}

// redisPatience is the timeout for connecting to Redis, and for each read and write. No result depends on Redis.
const redisPatience = 2 * time.Second

// parseRedis parses the address of one Redis, of sentinels (redis-sentinel://host:port,host:port?master=name) or of
// a cluster's nodes (redis-cluster://user:password@host:port,host:port).
func parseRedis(address string) (asynq.RedisConnOpt, error) {
	nodes, isCluster := strings.CutPrefix(address, "redis-cluster://")
	if !isCluster {
		options, err := asynq.ParseRedisURI(address)
		switch one := options.(type) {
		case asynq.RedisClientOpt:
			one.DialTimeout, one.ReadTimeout, one.WriteTimeout = redisPatience, redisPatience, redisPatience
			return one, err
		case asynq.RedisFailoverClientOpt:
			one.DialTimeout, one.ReadTimeout, one.WriteTimeout = redisPatience, redisPatience, redisPatience
			return one, err
		}
		return options, err
	}
	// url.Parse does not accept a list of hosts, so the account is parsed with the first host only.
	first, _, _ := strings.Cut(nodes, ",")
	u, err := url.Parse("redis://" + first)
	if err != nil {
		return nil, err
	}
	if _, hosts, hasAccount := strings.Cut(nodes, "@"); hasAccount {
		nodes = hosts
	}
	password, _ := u.User.Password()
	return asynq.RedisClusterClientOpt{Addrs: strings.Split(strings.TrimSuffix(nodes, "/"), ","),
		Username: u.User.Username(), Password: password,
		DialTimeout: redisPatience, ReadTimeout: redisPatience, WriteTimeout: redisPatience}, nil
}

// Ping returns an error if Redis does not answer.
func (q *Queue) Ping() error { return q.client.Ping() }

// Close closes the connections to Redis.
func (q *Queue) Close() error { return errors.Join(q.client.Close(), q.inspector.Close()) }

func (q *Queue) enqueue(ctx context.Context, kind, queue string, timeout time.Duration, args any) error {
	payload, err := json.Marshal(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if _, err := q.client.EnqueueContext(ctx, asynq.NewTask(kind, payload), asynq.Queue(queue), asynq.MaxRetry(0),
		asynq.Timeout(timeout)); err != nil {
		return fmt.Errorf("enqueue %s: %w", kind, err)
	}
	return nil
}

// waiting returns how many jobs of each launch wait in a queue, keyed by the launch's id.
func (q *Queue) waiting(queue string) (map[uuid.UUID]int, error) {
	counts := map[uuid.UUID]int{}
	const pageSize = 1000
	for page := 1; ; page++ {
		jobs, err := q.inspector.ListPendingTasks(queue, asynq.PageSize(pageSize), asynq.Page(page))
		if errors.Is(err, asynq.ErrQueueNotFound) {
			return counts, nil // no job was ever enqueued
		}
		if err != nil {
			return nil, fmt.Errorf("read the queue %s: %w", queue, err)
		}
		for _, job := range jobs {
			var args launchArgs
			if json.Unmarshal(job.Payload, &args) == nil {
				counts[args.LaunchID]++
			}
		}
		if len(jobs) < pageSize {
			return counts, nil
		}
	}
}

// depth returns how many jobs wait in a queue, or an error if Redis does not respond.
func (q *Queue) depth(queue string) (int, error) {
	known, err := q.inspector.Queues()
	if err == nil && !slices.Contains(known, queue) { // no job was ever enqueued
		return 0, nil
	}
	var info *asynq.QueueInfo
	if err == nil {
		info, err = q.inspector.GetQueueInfo(queue)
	}
	if err != nil {
		return 0, fmt.Errorf("read the queue %s: %w", queue, err)
	}
	return info.Pending + info.Scheduled, nil
}

func readLaunchArgs(job *asynq.Task) (uuid.UUID, error) {
	var args launchArgs
	if err := json.Unmarshal(job.Payload(), &args); err != nil {
		return uuid.Nil, fmt.Errorf("read the arguments of %s: %w", job.Type(), err)
	}
	return args.LaunchID, nil
}

// Addresses returns the host:port of the Redis servers at address; there are several for sentinels and the nodes of a
// cluster.
func Addresses(address string) (addresses []string) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "6379")
		}
		addresses = append(addresses, host)
	}
	return addresses
}
