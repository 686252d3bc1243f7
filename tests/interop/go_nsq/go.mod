module nsqlake/tests/interop/go_nsq

go 1.18

require github.com/nsqio/go-nsq v1.1.0

require github.com/golang/snappy v0.0.1 // indirect
