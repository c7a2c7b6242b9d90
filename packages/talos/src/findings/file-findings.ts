// Findings about cluster.yaml itself: none of them needs the platform.
import type { FindingKind } from "./finding.ts";

export const fileFindings = {
  "schedule-invalid": {
    area: "file",
    title: "backup.etcd.schedule is no schedule",
    evidence: "the text, and the field that is wrong",
    cause:
      "It has five fields as cron has them: minute, hour, day, month, weekday; numbers, lists, ranges and steps.",
    fix: 'Write for example "0 */6 * * *": every six hours.',
  },
  "yaml-broken": {
    area: "file",
    title: "cluster.yaml is no YAML",
    evidence: "the line and what the parser says of it",
    cause:
      "An indentation, a quote or a bracket is not what YAML expects; often a tab or a colon in plain text.",
    fix: "Look at the line named and the one before it; put text with a colon or # into quotes.",
  },
  "key-unknown": {
    area: "file",
    title: "A key is not known",
    evidence: "the key, its line, and the known key that is spelled most alike",
    cause:
      "A typo, or a key of another tool. Keys that are not known would be ignored silently, so they are refused.",
    fix: "Correct the spelling. `gpvectl talos schema` prints every key for your editor.",
  },
  "key-missing": {
    area: "file",
    title: "A key is missing",
    evidence: "the key and the line where it belongs",
    cause: "Nothing can be assumed in its place.",
    fix: "Add it. `gpvectl talos init` writes a file in which every needed key has a comment.",
  },
  "value-wrong": {
    area: "file",
    title: "A value is of the wrong kind",
    evidence: "the key, its line and what it must be",
    cause: "The value has another type, is outside its limits or is none of the choices.",
    fix: "Write it as the message says.",
  },
  "unit-in-number": {
    area: "file",
    title: "A size was written with a unit",
    evidence: "the key and its line",
    cause: "Units are part of the key's name: memoryMiB and diskGiB take plain numbers.",
    fix: "Write 8192 for 8 GiB of memory (MiB), and 80 for a disk of 80 GiB.",
  },
  "environment-missing": {
    area: "file",
    title: "An environment variable is not set",
    evidence: "the variable's name and the line that uses it",
    cause: "The file says ${NAME}, and the environment has no NAME.",
    fix: "Set it, or write ${NAME:-value} to say what holds without it. $${NAME} is the text itself.",
  },
  "talos-version": {
    area: "file",
    title: "This Talos version cannot be used",
    evidence: "the version, and the nearest one that can",
    cause: "Machine configurations are made for Talos 1.11 to 1.14; older ones are out of support upstream.",
    fix: "Use the version named. A cluster on an older Talos is upgraded minor by minor first.",
  },
  "contract-newer": {
    area: "file",
    title: "The contract is newer than Talos",
    evidence: "versions.contract and versions.talos",
    cause: "A machine does not read documents that only a later Talos knows.",
    fix: "Leave versions.contract out, or set it to the minor of versions.talos or an older one.",
  },
  "kubernetes-version": {
    area: "file",
    title: "This Talos does not run this Kubernetes",
    evidence: "the range that it runs",
    cause: "Each Talos minor supports six Kubernetes minors.",
    fix: "Choose a version of the range, or leave versions.kubernetes out for the recommended one.",
  },
  "control-planes-even": {
    area: "file",
    title: "An even number of control planes",
    evidence: "controlPlane.count",
    cause:
      "etcd needs more than half of its members: two survive as few failures as one, four as few as three.",
    fix: "Use 1, 3 or 5.",
  },
  "endpoint-ambiguous": {
    area: "file",
    title: "Where the Kubernetes API is reached is not clear",
    evidence: "which of vip, loadBalancer and dns are given",
    cause: "The address is part of every certificate and kubeconfig, so there must be exactly one.",
    fix: "Give exactly one of them, or a VIP and in dns the name that leads to it. Only with a single control plane may all be left out: its own address is used.",
  },
  "vip-outside-network": {
    area: "network",
    title: "The VIP is outside the machines' network",
    evidence: "endpoint.vip and network.nodeCIDR",
    cause: "Control planes answer for the VIP by ARP in their own network; elsewhere nobody would hear them.",
    fix: "Choose a free address of network.nodeCIDR that no DHCP server gives out, or use a load balancer.",
  },
  "address-outside-network": {
    area: "network",
    title: "An address is outside the machines' network",
    evidence: "the address, its key and network.nodeCIDR",
    cause: "A machine or gateway outside the network cannot be reached without a route that nobody made.",
    fix: "Correct the address, or network.nodeCIDR.",
  },
  "address-twice": {
    area: "network",
    title: "An address is used twice",
    evidence: "the address and both users",
    cause:
      "Two machines, or a machine and the gateway, the VIP or a reserved address, would answer for one address.",
    fix: "Give each its own address, or leave nodes.*.ip out.",
  },
  "address-unusable": {
    area: "network",
    title: "An address is one that no machine can have",
    evidence: "the address, its key and network.nodeCIDR",
    cause: "The first address of an IPv4 network names the network, the last one reaches all of it.",
    fix: "Choose an address between them, or correct network.nodeCIDR.",
  },
  "network-invalid": {
    area: "network",
    title: "A network is written wrongly",
    evidence: "the key and its line",
    cause:
      "The base is no address, the length does not fit its family, or it is the address of a machine with its length.",
    fix: "Write it as 10.0.0.0/24 or fd00:1::/64.",
  },
  "network-families": {
    area: "network",
    title: "IPv4 and IPv6 do not go together",
    evidence: "the network, and the family of the machines' addresses",
    cause:
      "Pods and services begin with the family that machines have first, or Kubernetes' API server does not start; a second network is of the other family, and machines need an address of it too.",
    fix: "With machines of IPv6 alone write podCIDRs and serviceCIDRs of IPv6; for both families set nodeCIDR6 and name two of each.",
  },
  "pod-network-size": {
    area: "network",
    title: "The pods' network does not fit the machines",
    evidence: "the network, how many machines it is enough for, and how many there are",
    cause:
      "Each machine gets a /24 of it (a /64 of IPv6) for its pods. Those that get none stay NotReady; and with more than 65536 such parts Kubernetes' controller manager does not start.",
    fix: "Write a network as large as the message says; a /16 (a /56 of IPv6) is enough for 256 machines.",
  },
  "networks-overlap": {
    area: "network",
    title: "Networks overlap",
    evidence: "both networks with their keys",
    cause:
      "Machines, pods and services would claim the same addresses; packets would go to whichever route is more exact.",
    fix: "Give network.nodeCIDR, podCIDRs and serviceCIDRs ranges of their own.",
  },
  "vmid-ranges": {
    area: "file",
    title: "Ranges of VMIDs do not work out",
    evidence: "the ranges",
    cause: "A range ends before it begins, or two ranges share VMIDs.",
    fix: "Give templates, control planes and workers ranges of their own.",
  },
  "vmid-twice": {
    area: "file",
    title: "A VMID is used twice",
    evidence: "the VMID and both machines",
    cause: "Two entries below nodes name the same VMID.",
    fix: "Give each its own, or leave nodes.*.vmid out.",
  },
  "vmids-exhausted": {
    area: "file",
    title: "A range of VMIDs is full",
    evidence: "the range and the machine that got none",
    cause: "There are more machines than VMIDs in the range.",
    fix: "Widen the range below vmids; machines that exist keep their VMIDs.",
  },
  "addresses-exhausted": {
    area: "network",
    title: "The network has no address left",
    evidence: "the network and the machine that got none",
    cause: "Offset, reservations and the number of machines do not fit into network.nodeCIDR.",
    fix: "Use a larger network or smaller offsets in network.ipam.",
  },
  "names-clash": {
    area: "file",
    title: "Names clash",
    evidence: "the name and its line",
    cause: "Two pools or providers have one name, or a pool is called cp as the control planes are.",
    fix: "Rename one of them.",
  },
  "name-too-long": {
    area: "file",
    title: "A machine's name is too long",
    evidence: "the pool and the name that its machines would have",
    cause: "Machines are called CLUSTER-POOL-NUMBER; Kubernetes and DNS take 63 characters.",
    fix: "Give the pool a shorter name, or its machines a hostname of their own below nodes.",
  },
  "label-invalid": {
    area: "file",
    title: "Kubernetes takes no such label or taint",
    evidence: "the pool, the key and its value",
    cause:
      "Names and values have letters, digits and - _ . inside; a taint ends with NoSchedule, PreferNoSchedule or NoExecute.",
    fix: 'Write labels as `tier: web`, taints as `dedicated: "gpu:NoSchedule"` or `dedicated: ":NoSchedule"`.',
  },
  "storage-pool-diskless": {
    area: "file",
    title: "A storage pool has no disks",
    evidence: "the pool and its line",
    cause:
      "Machines of role storage keep their data on disks beside the system's, which an upgrade or a reset leaves alone.",
    fix: "Give the pool machine.extraDisks: [{ gib: 200, storage: local-lvm }], or leave the role out.",
  },
  "node-unknown": {
    area: "file",
    title: "nodes names a machine that the cluster does not have",
    evidence: "the name and how machines are called",
    cause:
      "Machines are called CLUSTER-cp-1 and CLUSTER-POOL-1; the number is past the count, or the name is another one.",
    fix: "Correct the name, or raise the count.",
  },
  "host-unknown": {
    area: "file",
    title: "A machine is put on a node that no provider lists",
    evidence: "the node and the nodes that are listed",
    cause: "nodes.*.host is none of providers.*.nodes.",
    fix: "Add it to the provider's nodes, or choose another.",
  },
  "spread-impossible": {
    area: "platform",
    title: "Control planes cannot be spread",
    evidence: "the number of control planes and of nodes, or two control planes and the node they share",
    cause:
      "placement.spread is required, and there are fewer nodes than control planes, or nodes.*.host or the lock puts two of them on one node. Of control planes that run there already it is a warning.",
    fix: "Add nodes to the providers, give each control plane a nodes.*.host of its own, or use placement.spread: preferred.",
  },
  "provider-incomplete": {
    area: "file",
    title: "A provider cannot be reached with what is given",
    evidence: "the key that is missing",
    cause: "gpve and pve-api are reached over the network and need an endpoint and a token.",
    fix: "Add endpoint and tokenRef; on a Proxmox host itself, type: qm needs neither.",
  },
  "import-unknown": {
    area: "file",
    title: "A file cannot be imported",
    evidence: "the file's name",
    cause: "It is none of the kinds that are known, or it is damaged.",
    fix: "Import a talconfig.yaml (talhelper), a terraform.tfvars, or a terraform.tfstate with machines of the bpg provider.",
  },
  "import-no-control-plane": {
    area: "file",
    title: "None of a file's machines can be told to be a control plane",
    evidence: "the file's name",
    cause:
      "Terraform's files do not say it in one way: it is told by machine_type or role, by the group that a machine is in, or by control, ctrl, master or cp in its name or tags.",
    fix: 'Give one of the machines role = "controlplane", or name its group control_planes, and import the file again.',
  },
  "image-ambiguous": {
    area: "image",
    title: "Two sources of the image are given",
    evidence: "the key that is beside image.archive",
    cause: "An archive is a disk's image that is unpacked here; an ISO and an offline directory are others.",
    fix: "Keep one: image.archive, image.boot: iso, or image.offlineDir.",
  },
  "template-of-iso": {
    area: "file",
    title: "Machines that begin from an ISO have nothing to be cloned from",
    evidence: "the keys",
    cause:
      "A template's disk has Talos on it; with image.boot: iso disks are empty until each machine installs itself.",
    fix: "Remove templates, or set image.boot: disk.",
  },
  "template-node-unknown": {
    area: "file",
    title: "Templates are to lie on a node that no provider has",
    evidence: "the nodes that are known",
    cause: "templates.nodes names a node that is in no provider's list.",
    fix: "Correct the name, or add the node to its provider.",
  },
  "hostname-patched": {
    area: "file",
    title: "A patch changes a machine's hostname",
    evidence: "the machine, and what its configuration would say",
    cause:
      "Nodes and members of etcd are known by the names of the file. A patch for several machines would give all of them one name; HostnameConfig with auto gives them names of their own.",
    fix: "Take it out of the patch and write nodes.NAME.hostname.",
  },
  "patch-unreadable": {
    area: "file",
    title: "A patch cannot be used",
    evidence: "the file and what is wrong with it",
    cause:
      "The file is not there (its path is relative to cluster.yaml), is no YAML, or deletes what does not exist.",
    fix: "Correct the path or the patch. Nothing was changed.",
  },
  "patch-refused": {
    area: "file",
    title: "Talos would refuse a patch",
    evidence: "the key or document, the file that brings it, and what Talos has against it",
    cause:
      "A key that Talos does not know, a document of a later Talos, or a setting in the v1alpha1 document that a document of its own has already: from v1.12 on the network, from v1.14 on Kubernetes.",
    fix: "Write it as the message says. `gpvectl talos render` shows which documents there are.",
  },
} as const satisfies Record<string, FindingKind>;
