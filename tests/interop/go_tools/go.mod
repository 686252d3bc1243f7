module nsqlake.test/go_tools

go 1.19

require github.com/nsqio/nsq v1.2.0

require (
	github.com/BurntSushi/toml v0.3.1 // indirect
	github.com/blang/semver v3.5.1+incompatible // indirect
	github.com/bmizerany/perks v0.0.0-20141205001514-d9a9656a3a4b // indirect
	github.com/golang/snappy v0.0.0-20180518054509-2e65f85255db // indirect
	github.com/judwhite/go-svc v1.0.0 // indirect
	github.com/julienschmidt/httprouter v1.2.0 // indirect
	github.com/mreiferson/go-options v0.0.0-20190302015348-0c63f026bcd6 // indirect
	github.com/nsqio/go-nsq v1.0.7 // indirect
	golang.org/x/sys v0.0.0-20181221143128-b4a75ba826a6 // indirect
)
