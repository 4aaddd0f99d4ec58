package jobs_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// startRedisServer starts a redis-server on a free port and returns its address.
func startRedisServer(t *testing.T, arguments ...string) string {
	t.Helper()
	binary := dbtest.Need(t, "redis-server")
	address := dbtest.FreeAddress(t)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	command := exec.Command(binary, append(arguments, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(),
		"--save", "")...)
	require.NoError(t, command.Start())
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	client := redis.NewClient(&redis.Options{Addr: address})
	t.Cleanup(func() { _ = client.Close() })
	dbtest.Await(t, time.Minute, "redis-server", func() bool { return client.Ping(context.Background()).Err() == nil })
	return address
}

func TestTheQueueMayBeAClusterOrStandBehindSentinels(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(*testing.T) string{
		"cluster": func(t *testing.T) string {
			node := startRedisServer(t, "--cluster-enabled", "yes", "--cluster-port", "0")
			client := redis.NewClient(&redis.Options{Addr: node})
			defer client.Close()
			require.NoError(t, client.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err())
			dbtest.Await(t, time.Minute, "the cluster", func() bool {
				return client.Set(t.Context(), "ready", "1", time.Second).Err() == nil
			})
			return "redis-cluster://" + node
		},
		"sentinel": func(t *testing.T) string {
			host, port, err := net.SplitHostPort(startRedisServer(t))
			require.NoError(t, err)
			settings := t.TempDir() + "/sentinel.conf"
			require.NoError(t, os.WriteFile(settings, []byte(fmt.Sprintf("sentinel monitor main %s %s 1\n", host, port)), 0o600))
			return "redis-sentinel://" + startRedisServer(t, settings, "--sentinel") + "?master=main"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBenchOn(t, address(t))
			fake := agenttest.New(t, answer)
			b.startWorker(t, 4)
			taskID, launchID := b.task(t, fake.URL, 4, nil)
			require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
			b.requireComplete(t, b.awaitEnd(t, taskID, 30*time.Second))
		})
	}
}
