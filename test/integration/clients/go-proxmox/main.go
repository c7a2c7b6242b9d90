// One round of a VM's life through go-proxmox, with everything around it. Settings with secrets come on standard
// input; what was seen goes to standard output as JSON. Anything unexpected ends the program with the step's name.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/luthermonson/go-proxmox"
)

type settings struct {
	URL      string `json:"url"`
	CAFile   string `json:"caFile"`
	Username string `json:"username"`
	Password string `json:"password"`
	TokenID  string `json:"tokenId"`
	Secret   string `json:"secret"`
	Image    string `json:"image"` // a URL of a bootable qcow2
	ISO      string `json:"iso"`   // a file to upload
	Bridge   string `json:"bridge"`
	VMID     int    `json:"vmid"` // this and the next two are used
}

var ctx = context.Background()
var seen = map[string]any{}

func must(step string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", step, err)
		os.Exit(1)
	}
}

func check(step string, ok bool, got any) {
	if !ok {
		must(step, fmt.Errorf("unexpected: %+v", got))
	}
}

// done waits for a task as this library's users do: it must end with exactly OK.
func done(step string, task *proxmox.Task, err error) {
	must(step, err)
	must(step+": wait", task.Wait(ctx, 200*time.Millisecond, 2*time.Minute))
	if !task.IsSuccessful {
		log, _ := task.Log(ctx, 0, 50)
		must(step, fmt.Errorf("%s ended with %s: %v", task.UPID, task.ExitStatus, log))
	}
}

func opt(name string, value any) proxmox.VirtualMachineOption {
	return proxmox.VirtualMachineOption{Name: name, Value: value}
}

func main() {
	var s settings
	must("settings", json.NewDecoder(os.Stdin).Decode(&s))
	pem, err := os.ReadFile(s.CAFile)
	must("CA", err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	web := &http.Client{Transport: transport, Timeout: time.Minute}
	base := s.URL + "/api2/json"
	byPassword := proxmox.NewClient(base, proxmox.WithHTTPClient(web),
		proxmox.WithCredentials(&proxmox.Credentials{Username: s.Username, Password: s.Password}))
	byToken := proxmox.NewClient(base, proxmox.WithHTTPClient(web), proxmox.WithAPIToken(s.TokenID, s.Secret))

	wrong := proxmox.NewClient(base, proxmox.WithHTTPClient(web),
		proxmox.WithCredentials(&proxmox.Credentials{Username: s.Username, Password: "wrong"}))
	_, err = wrong.Version(ctx)
	check("a wrong password", proxmox.IsNotAuthorized(err), err)

	access(byPassword)
	node := facts(byPassword)
	storage(byPassword, node, s)
	machine(byPassword, node.Name, s, "password", inside)
	node, err = byToken.Node(ctx, node.Name)
	must("node by token", err)
	machine(byToken, node.Name, s, "token", copies)
	cleanup(byPassword, node.Name)
	must("report", json.NewEncoder(os.Stdout).Encode(seen))
}

func access(c *proxmox.Client) {
	version, err := c.Version(ctx)
	must("version", err)
	seen["version"] = version.Version
	must("new pool", c.NewPool(ctx, "go-pool", "from go-proxmox"))
	must("new group", c.NewGroup(ctx, "go-group", "group"))
	must("new role", c.NewRole(ctx, "GoRole", "VM.Audit,VM.PowerMgmt"))
	user := &proxmox.NewUser{UserID: "go@pve", Password: "correct horse", Enable: true, Groups: []string{"go-group"}}
	must("new user", c.NewUser(ctx, user))
	acl := map[string]any{"path": "/pool/go-pool", "roles": "GoRole", "users": "go@pve", "propagate": 1}
	must("set acl", c.Put(ctx, "/access/acl", acl, nil))
	got, err := c.User(ctx, "go@pve")
	must("user", err)
	check("user", bool(got.Enable) && len(got.Groups) == 1, got)
	token, err := got.NewAPIToken(ctx, proxmox.Token{TokenID: "t1", Comment: "token", Privsep: true})
	must("new token", err)
	check("new token", token.FullTokenID == "go@pve!t1" && len(token.Value) == 36, token)
	tokens, err := got.GetAPITokens(ctx)
	must("tokens", err)
	check("tokens", len(tokens) == 1 && bool(tokens[0].Privsep), tokens)
	must("delete token", got.DeleteAPIToken(ctx, "t1"))
	role, err := c.Role(ctx, "GoRole")
	must("role", err)
	check("role", bool(role["VM.Audit"]), role)
	acls, err := c.ACL(ctx)
	must("acl", err)
	found := 0
	for _, row := range acls {
		if row.UGID == "go@pve" && row.RoleID == "GoRole" && bool(row.Propagate) {
			found++
		}
	}
	check("acl", found == 1, acls)
	permissions, err := c.Permissions(ctx, &proxmox.PermissionsOptions{UserID: "go@pve", Path: "/pool/go-pool"})
	must("permissions", err)
	check("permissions", bool(permissions["/pool/go-pool"]["VM.PowerMgmt"]), permissions)
	must("set password", c.Password(ctx, "go@pve", "another horse"))
	domains, err := c.Domains(ctx)
	must("domains", err)
	check("domains", len(domains) >= 2, domains)
	_, err = c.Groups(ctx)
	must("groups", err)
	_, err = c.Users(ctx)
	must("users", err)
}

func facts(c *proxmox.Client) *proxmox.Node {
	nodes, err := c.Nodes(ctx)
	must("nodes", err)
	check("nodes", len(nodes) == 1 && nodes[0].Status == "online", nodes)
	node, err := c.Node(ctx, nodes[0].Node)
	must("node", err)
	check("node", node.CPUInfo.CPUs > 0 && node.Memory.Total > 0 && len(node.LoadAvg) == 3, node)
	seen["node"] = node.Name
	_, err = node.Version(ctx)
	must("node version", err)
	_, err = node.Networks(ctx)
	must("networks", err)
	containers, err := node.Containers(ctx)
	must("containers", err)
	check("containers", len(containers) == 0, containers)
	cluster, err := c.Cluster(ctx)
	must("cluster", err)
	check("cluster", len(cluster.Nodes) == 1, cluster)
	for _, kind := range []string{"", "vm", "storage", "node"} {
		filters := []string{}
		if kind != "" {
			filters = append(filters, kind)
		}
		_, err = cluster.Resources(ctx, filters...)
		must("resources "+kind, err)
	}
	_, err = cluster.Tasks(ctx)
	must("cluster tasks", err)
	return node
}

func storage(client *proxmox.Client, node *proxmox.Node, s settings) {
	storages, err := node.Storages(ctx)
	must("storages", err)
	check("storages", len(storages) == 1 && storages[0].Avail > 0, storages)
	iso, err := node.StorageISO(ctx)
	must("storage for ISOs", err)
	task, err := iso.UploadWithName("iso", s.ISO, "go.iso")
	done("upload", task, err)
	file, err := iso.ISO(ctx, "go.iso")
	must("ISO", err)
	check("ISO", file.Path != "" && file.Size > 0, file)
	local, err := node.Storage(ctx, "local")
	must("storage", err)
	task, err = local.DownloadURL(ctx, "iso", "go.img", s.Image)
	done("download", task, err)
	// The library's own check knows nothing of images to import.
	var upid proxmox.UPID
	image := map[string]any{"content": "import", "filename": "go.qcow2", "url": s.Image}
	must("download image", client.Post(ctx, fmt.Sprintf("/nodes/%s/storage/local/download-url", node.Name), image, &upid))
	done("download image", proxmox.NewTask(upid, client), nil)
	content, err := local.GetContent(ctx)
	must("content", err)
	names := []string{}
	for _, row := range content {
		names = append(names, row.Volid)
	}
	seen["content"] = names
}

type visit func(*proxmox.Client, *proxmox.Node, *proxmox.VirtualMachine, settings, func(string) string)

// machine makes a VM, visits it and takes it away again.
func machine(c *proxmox.Client, nodeName string, s settings, how string, look visit) {
	step := func(name string) string { return how + ": " + name }
	node, err := c.Node(ctx, nodeName)
	must(step("node"), err)
	cluster, err := c.Cluster(ctx)
	must(step("cluster"), err)
	free, err := cluster.CheckID(ctx, s.VMID)
	must(step("check id"), err)
	check(step("check id"), free, free)
	next, err := cluster.NextID(ctx)
	must(step("next id"), err)
	check(step("next id"), next >= 100, next)
	task, err := node.NewVirtualMachine(ctx, s.VMID,
		opt("name", "go-vm"), opt("memory", 128), opt("cores", 1), opt("ostype", "l26"), opt("agent", "1"),
		opt("scsihw", "virtio-scsi-single"), opt("serial0", "socket"), opt("boot", "order=scsi0"),
		opt("scsi0", "local:0,import-from=local:import/go.qcow2,format=qcow2"),
		opt("net0", "virtio,bridge="+s.Bridge), opt("pool", "go-pool"), opt("ide2", "local:iso/go.iso,media=cdrom"))
	done(step("create"), task, err)
	free, err = cluster.CheckID(ctx, s.VMID)
	must(step("check taken id"), err)
	check(step("check taken id"), !free, free)
	vm, err := node.VirtualMachine(ctx, s.VMID)
	must(step("read"), err)
	check(step("read"), vm.IsStopped() && vm.Name == "go-vm" && !bool(vm.Template), vm)
	check(step("config"), vm.VirtualMachineConfig.Cores == 1 && vm.VirtualMachineConfig.SMBios1 != "", vm.VirtualMachineConfig)
	task, err = vm.Config(ctx, opt("description", "changed"), opt("cores", 2), opt("tags", "one"))
	done(step("configure"), task, err)
	vm, err = node.VirtualMachine(ctx, s.VMID)
	must(step("read again"), err)
	task, err = vm.AddTag(ctx, "two")
	done(step("add tag"), task, err)
	check(step("tags"), vm.HasTag("one") && vm.HasTag("two"), vm.VirtualMachineConfig.Tags)
	must(step("resize"), vm.ResizeDisk(ctx, "scsi0", "+64M"))
	look(c, node, vm, s, step)
	vm, err = node.VirtualMachine(ctx, s.VMID)
	must(step("read last"), err)
	task, err = vm.Delete(ctx)
	done(step("delete"), task, err)
	_, err = node.VirtualMachine(ctx, s.VMID)
	check(step("gone"), err != nil && strings.Contains(err.Error(), "does not exist"), err)
	seen[how] = "whole round"
}

// inside looks into the running guest.
func inside(c *proxmox.Client, node *proxmox.Node, vm *proxmox.VirtualMachine, s settings, step func(string) string) {
	task, err := vm.Start(ctx)
	done(step("start"), task, err)
	must(step("ping"), vm.Ping(ctx))
	check(step("running"), vm.IsRunning() && vm.Uptime >= 0, vm)
	must(step("agent"), vm.WaitForAgent(ctx, 120))
	agent(vm, step)
	consoles(vm, step)
	snapshots(c, node, vm, step)
	pending, err := vm.Pending(ctx)
	must(step("pending"), err)
	check(step("pending"), pending != nil && len(*pending) > 5, pending)
	_, err = vm.RRDData(ctx, proxmox.TimeframeHour)
	must(step("rrd"), err)
	task, err = vm.Pause(ctx)
	done(step("pause"), task, err)
	must(step("ping paused"), vm.Ping(ctx))
	check(step("paused"), vm.IsPaused(), vm.QMPStatus)
	task, err = vm.Resume(ctx)
	done(step("resume"), task, err)
	task, err = vm.Stop(ctx)
	done(step("stop"), task, err)
}

func agent(vm *proxmox.VirtualMachine, step func(string) string) {
	info, err := vm.AgentOsInfo(ctx)
	must(step("os info"), err)
	check(step("os info"), info.ID != "", info)
	_, err = vm.AgentGetNetworkIFaces(ctx)
	must(step("interfaces"), err)
	pid, err := vm.AgentExec(ctx, []string{"/bin/sh", "-c", "read line; echo got $line; echo bad >&2; exit 3"}, "words\n")
	must(step("exec"), err)
	status, err := vm.WaitForAgentExecExit(ctx, pid, 30)
	must(step("exec status"), err)
	check(step("exec status"),
		status.ExitCode == 3 && status.OutData == "got words\n" && status.ErrData == "bad\n", status)
}

// waitFor reads until the text came; what is sent may be needed more than once while a shell starts.
func waitFor(step string, recv chan []byte, errs chan error, want []byte, nudge func()) {
	var all []byte
	limit := time.After(30 * time.Second)
	for !bytes.Contains(all, want) {
		select {
		case part := <-recv:
			all = append(all, part...)
		case err := <-errs:
			must(step, err)
		case <-time.After(2 * time.Second):
			nudge()
		case <-limit:
			must(step, fmt.Errorf("%q never came: %q", want, all))
		}
	}
}

// leave closes a console while somebody still reads: the library sends what is left before it ends.
func leave(step string, recv chan []byte, errs chan error, closer func() error) {
	go func() {
		for range recv {
		}
	}()
	go func() {
		for range errs {
		}
	}()
	_ = closer() // the other side may be the first to close
}

func consoles(vm *proxmox.VirtualMachine, step func(string) string) {
	term, err := vm.TermProxy(ctx)
	must(step("term proxy"), err)
	send, recv, errs, closer, err := vm.TermWebSocket(term)
	must(step("term websocket"), err)
	ask := func() { send <- []byte("echo $((6*7))-on-serial\n") }
	ask()
	waitFor(step("serial console"), recv, errs, []byte("42-on-serial"), ask)
	leave(step("close console"), recv, errs, closer)
	vnc, err := vm.VNCProxy(ctx, &proxmox.VNCConfig{Websocket: true})
	must(step("vnc proxy"), err)
	_, recv, errs, closer, err = vm.VNCWebSocket(vnc)
	must(step("vnc websocket"), err)
	waitFor(step("vnc"), recv, errs, []byte("RFB 003.008\n"), func() {})
	leave(step("close vnc"), recv, errs, closer)
}

func snapshots(c *proxmox.Client, node *proxmox.Node, vm *proxmox.VirtualMachine, step func(string) string) {
	task, err := vm.NewSnapshot(ctx, "first")
	done(step("snapshot"), task, err)
	list, err := vm.Snapshots(ctx)
	must(step("snapshots"), err)
	check(step("snapshots"), len(list) == 2 && list[0].Name == "first" && list[1].Name == "current", list)
	task, err = vm.SnapshotRollback(ctx, "first")
	done(step("rollback"), task, err)
	must(step("delete snapshot"), deleteSnapshot(c, node, vm, "first", step))
	task, err = vm.Start(ctx)
	done(step("start after rollback"), task, err)
}

// deleteSnapshot goes through the client itself: this version of the library has no method for it.
func deleteSnapshot(c *proxmox.Client, node *proxmox.Node, vm *proxmox.VirtualMachine, name string, step func(string) string) error {
	var upid proxmox.UPID
	if err := c.Delete(ctx, fmt.Sprintf("/nodes/%s/qemu/%d/snapshot/%s", node.Name, vm.VMID, name), &upid); err != nil {
		return err
	}
	done(step("delete snapshot"), proxmox.NewTask(upid, c), nil)
	return nil
}

func copies(c *proxmox.Client, node *proxmox.Node, vm *proxmox.VirtualMachine, s settings, step func(string) string) {
	task, err := vm.MoveDisk(ctx, "scsi0", &proxmox.VirtualMachineMoveDiskOptions{Storage: "local", Format: "raw", Delete: 1})
	done(step("move disk"), task, err)
	task, err = vm.Config(ctx, opt("scsi1", "local:1,format=qcow2"))
	done(step("add disk"), task, err)
	task, err = vm.UnlinkDisk(ctx, "scsi1", true)
	must(step("unlink"), err)
	newid, task, err := vm.Clone(ctx, &proxmox.VirtualMachineCloneOptions{NewID: s.VMID + 1, Full: 1, Name: "go-full", Pool: "go-pool"})
	done(step("full clone"), task, err)
	template, err := node.VirtualMachine(ctx, newid)
	must(step("read clone"), err)
	task, err = template.Config(ctx, opt("ide2", "none,media=cdrom"))
	done(step("empty the drive"), task, err)
	task, err = template.ConvertToTemplate(ctx)
	done(step("template"), task, err)
	template, err = node.VirtualMachine(ctx, newid)
	must(step("read template"), err)
	check(step("template"), bool(template.Template), template)
	linkedID, task, err := template.Clone(ctx, &proxmox.VirtualMachineCloneOptions{NewID: s.VMID + 2, Name: "go-linked"})
	done(step("linked clone"), task, err)
	pool, err := c.Pool(ctx, "go-pool")
	must(step("pool"), err)
	check(step("pool"), len(pool.Members) == 2, pool.Members)
	must(step("pool update"), pool.Update(ctx, &proxmox.PoolUpdateOption{VirtualMachines: fmt.Sprint(linkedID)}))
	for _, id := range []int{linkedID, newid} {
		copied, err := node.VirtualMachine(ctx, id)
		must(step("read copy"), err)
		task, err = copied.Delete(ctx)
		done(step("delete copy"), task, err)
	}
	vms, err := node.VirtualMachines(ctx)
	must(step("list"), err)
	mine := 0
	for _, row := range vms {
		if int(row.VMID) >= s.VMID && int(row.VMID) <= s.VMID+2 {
			mine++
		}
	}
	check(step("list"), mine == 1, vms)
}

func cleanup(c *proxmox.Client, nodeName string) {
	node, err := c.Node(ctx, nodeName)
	must("node", err)
	local, err := node.Storage(ctx, "local")
	must("storage", err)
	iso, err := local.ISO(ctx, "go.iso")
	must("ISO", err)
	task, err := iso.Delete(ctx)
	done("delete ISO", task, err)
	for _, volume := range []string{"iso/go.img", "import/go.qcow2"} {
		task, err = local.DeleteContent(ctx, volume)
		done("delete "+volume, task, err)
	}
	pool, err := c.Pool(ctx, "go-pool")
	must("pool", err)
	must("delete pool", pool.Delete(ctx))
	user, err := c.User(ctx, "go@pve")
	must("user", err)
	must("delete user", user.Delete(ctx))
	group, err := c.Group(ctx, "go-group")
	must("group", err)
	must("delete group", group.Delete(ctx))
	must("delete role", c.Delete(ctx, "/access/roles/GoRole", nil))
}
