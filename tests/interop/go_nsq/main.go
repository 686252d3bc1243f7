// The scenarios of tests/interop/README.md, played with the published go-nsq.
package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/nsqio/go-nsq"
)

type request struct {
	Address      string   `json:"address"`
	Topic        string   `json:"topic"`
	Channel      string   `json:"channel"`
	Mode         string   `json:"mode"`
	CAFile       string   `json:"ca_file"`
	Scenarios    []string `json:"scenarios"`
	Single       string   `json:"single"`
	Several      []string `json:"several"`
	LargeBytes   int      `json:"large_bytes"`
	DelayMs      int      `json:"delay_ms"`
	MsgTimeoutMs int      `json:"msg_timeout_ms"`
	HoldMs       int      `json:"hold_ms"`
	LimitMs      int      `json:"limit_ms"`
}

type delivery struct {
	Attempts uint16  `json:"attempts"`
	AtMs     float64 `json:"at_ms"`
	Bytes    int     `json:"bytes"`
	SHA256   string  `json:"sha256"`
}

type observation struct {
	Acknowledged int        `json:"acknowledged"`
	Deliveries   []delivery `json:"deliveries"`
	RequeuedAtMs float64    `json:"requeued_at_ms"`
	Error        string     `json:"error"`
}

// play is one scenario under way; its handler runs on several goroutines.
type play struct {
	request  request
	scenario string
	started  time.Time
	done     chan struct{}
	mutex    sync.Mutex
	seen     observation
}

func milliseconds(count int) time.Duration { return time.Duration(count) * time.Millisecond }

func (p *play) nowMs() float64 { return float64(time.Since(p.started)) / float64(time.Millisecond) }

func (p *play) topic() string { return p.request.Topic + "." + p.scenario }

func (p *play) config() (*nsq.Config, error) {
	config := nsq.NewConfig()
	config.MaxInFlight = 10
	config.HeartbeatInterval = time.Second
	config.Snappy = p.request.Mode == "tls-snappy"
	config.Deflate = p.request.Mode == "tls-deflate"
	if p.scenario == "touch" || p.scenario == "timeout" {
		config.MsgTimeout = milliseconds(p.request.MsgTimeoutMs)
	}
	if p.request.Mode == "plain" {
		return config, nil
	}
	authority, err := os.ReadFile(p.request.CAFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s holds no certificate", p.request.CAFile)
	}
	config.TlsV1 = true
	config.TlsConfig = &tls.Config{RootCAs: roots}
	return config, nil
}

func (p *play) severalBodies() [][]byte {
	var bodies [][]byte
	for _, text := range p.request.Several {
		bodies = append(bodies, []byte(text))
	}
	size := p.request.LargeBytes
	noise, state := make([]byte, size), uint32(1)
	for i := range noise {
		state = state*1664525 + 1013904223
		noise[i] = byte(state >> 24)
	}
	return append(bodies, bytes.Repeat([]byte("nsq "), size/4), noise)
}

func (p *play) publish(producer *nsq.Producer) error {
	if p.scenario == "defer" {
		return producer.DeferredPublish(p.topic(), milliseconds(p.request.DelayMs), []byte(p.request.Single))
	}
	if err := producer.Publish(p.topic(), []byte(p.request.Single)); err != nil {
		return err
	}
	if p.scenario != "publish" && p.scenario != "consume" {
		return nil
	}
	p.seen.Acknowledged = 1
	if err := producer.MultiPublish(p.topic(), p.severalBodies()); err != nil {
		return err
	}
	p.seen.Acknowledged = 2
	return nil
}

func (p *play) deliveriesWanted() int {
	switch p.scenario {
	case "consume":
		return 1 + len(p.severalBodies())
	case "requeue", "timeout":
		return 2
	}
	return 1
}

func (p *play) record(message *nsq.Message) int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	digest := sha256.Sum256(message.Body)
	p.seen.Deliveries = append(p.seen.Deliveries,
		delivery{message.Attempts, p.nowMs(), len(message.Body), hex.EncodeToString(digest[:])})
	return len(p.seen.Deliveries)
}

func (p *play) HandleMessage(message *nsq.Message) error {
	message.DisableAutoResponse()
	count := p.record(message)
	if count == 1 && p.scenario == "timeout" {
		return nil
	}
	if count == 1 && p.scenario == "requeue" {
		p.seen.RequeuedAtMs = p.nowMs()
		message.RequeueWithoutBackoff(milliseconds(p.request.DelayMs))
		return nil
	}
	if p.scenario == "touch" {
		p.holdTouching(message)
	}
	message.Finish()
	if count == p.deliveriesWanted() {
		close(p.done)
	}
	return nil
}

func (p *play) holdTouching(message *nsq.Message) {
	for until := time.Now().Add(milliseconds(p.request.HoldMs)); time.Now().Before(until); {
		message.Touch()
		time.Sleep(milliseconds(p.request.MsgTimeoutMs / 4))
	}
}

func (p *play) stop(consumer *nsq.Consumer) error {
	consumer.Stop()
	if p.scenario == "timeout" {
		return nil // go-nsq would wait for an answer to the copy that timed out
	}
	select {
	case <-consumer.StopChan:
		return nil
	case <-time.After(milliseconds(p.request.LimitMs)):
		return fmt.Errorf("the consumer did not stop")
	}
}

func (p *play) run() error {
	config, err := p.config()
	if err != nil {
		return err
	}
	producer, err := nsq.NewProducer(p.request.Address, config)
	if err != nil {
		return err
	}
	defer producer.Stop()
	p.started = time.Now()
	if p.scenario == "publish" {
		return p.publish(producer)
	}
	consumer, err := nsq.NewConsumer(p.topic(), p.request.Channel, config)
	if err != nil {
		return err
	}
	consumer.AddConcurrentHandlers(p, 4)
	if err := consumer.ConnectToNSQD(p.request.Address); err != nil {
		return err
	}
	p.started = time.Now()
	if err := p.publish(producer); err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(milliseconds(p.request.LimitMs)):
		return fmt.Errorf("too few deliveries")
	}
	time.Sleep(200 * time.Millisecond) // a FIN leaves on go-nsq's own goroutine
	return p.stop(consumer)
}

func main() {
	var asked request
	if err := json.Unmarshal([]byte(os.Args[1]), &asked); err != nil {
		log.Fatal(err)
	}
	seen := make(map[string]*observation)
	var group sync.WaitGroup
	for _, scenario := range asked.Scenarios {
		p := &play{request: asked, scenario: scenario, done: make(chan struct{})}
		seen[scenario] = &p.seen
		group.Add(1)
		go func() {
			defer group.Done()
			if err := p.run(); err != nil {
				p.seen.Error = err.Error()
			}
		}()
	}
	group.Wait()
	answer := map[string]any{"client": "go-nsq", "version": nsq.VERSION, "scenarios": seen}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		log.Fatal(err)
	}
}
