// Findings of a cluster that is being made or changed: machines, etcd, Kubernetes.
import type { FindingKind } from "./finding.ts";

export const clusterFindings = {
  "machine-silent": {
    area: "machine",
    title: "A machine does not answer",
    evidence: "its address, and what happened when port 50000 was tried",
    cause:
      "It did not boot, has not got its address (the cloud-init drive gives it before any configuration), or is not reachable from here.",
    fix: "Its console says more: the failure shows its last lines where the token has VM.Console and the platform is reached by its API. Check bridge and VLAN, that the address is routed from here, that nobody else has it, and with network.addressing dhcp that the server gives this address to this MAC (dhcp-hosts.conf of talos render). Then apply again.",
  },
  "install-disk-unsure": {
    area: "machine",
    title: "It is not certain which disk Talos would be installed to",
    evidence: "the disk that was meant, and the disks that the machine has",
    cause:
      "With image.boot: iso Talos is written to a disk. The first one has not the size of the file, or another one is as large.",
    fix: "Give extra disks another size than the system's, or boot from the disk image (image.boot: disk).",
  },
  "installer-of-another": {
    area: "image",
    title: "A patch sets the installer of another platform",
    evidence: "the installer, and the platform of the machines",
    cause:
      "Upgrades install it. One of metal does not read the addresses of nocloud's drive, and the machine falls back to DHCP.",
    fix: "Take machine.install.image out of the patch: it is set from image.platform and the schematic.",
  },
  "backup-of-control-plane": {
    area: "etcd",
    title: "A control plane is not brought back from a backup of its machine",
    evidence: "the machine",
    cause:
      "Its etcd would come back with what it knew then, under the name of a member that the others know to be further: it could answer with what is no longer true.",
    fix: "Make it anew: gpvectl talos replace MACHINE. Where all control planes are lost, etcd comes from a snapshot: gpvectl talos etcd restore.",
  },
  "backup-of-another": {
    area: "machine",
    title: "A backup is not of this machine",
    evidence: "the backup, and the identity that is in it",
    cause: "Another guest had the same VMID when it was made, or the cluster was made anew since.",
    fix: "List the backups with gpvectl talos backup list, and name one of this machine. Nothing was changed.",
  },
  "hostname-clash": {
    area: "machine",
    title: "Two machines say that they have the same name",
    evidence: "the machines, and the name that each of them tells",
    cause:
      "A patch sets one hostname for several, a machine was cloned with its configuration, or a DHCP server gives names. etcd and Kubernetes know machines by their names: one would take the other's place.",
    fix: "Take the hostname out of patches and the DHCP server; nodes.*.hostname gives one machine another name. Then apply again: nothing was changed.",
  },
  "hostname-differs": {
    area: "machine",
    title: "A machine has another name than the file says",
    evidence: "the name it tells, and the one of the file",
    cause:
      "An upgrade or a patch left it with a name of its own (HostnameConfig's auto), so that it registers as another node.",
    fix: "Write that name into nodes.*.hostname, or make it anew: gpvectl talos replace MACHINE.",
  },
  "default-route-wrong": {
    area: "network",
    title: "A machine's way out is not the gateway of the file",
    evidence: "the default routes that it tells, and network.gateway",
    cause:
      "A second card that nobody configured got an address and a default route by DHCP, or network.gateway is not what the DHCP server gives. Answers leave by the wrong card, and etcd may choose the wrong address.",
    fix: "Configure that card in a patch (a LinkConfig without routes), take it away, or correct network.gateway. Then apply again.",
  },
  "hostname-changes": {
    area: "kubernetes",
    title: "A machine that is a node would get another name",
    evidence: "the name it has, and the one that the file says",
    cause:
      "Kubernetes knows nodes by their names: the machine would come back as a second node, and the old one stay.",
    fix: "Give it back its name in nodes.*.hostname, or replace the machine: gpvectl talos replace MACHINE.",
  },
  "address-changes": {
    area: "machine",
    title: "A machine that is there would get another address",
    evidence: "the address that its guest has, and what the file says",
    cause:
      "nodes.*.ip, network.nodeCIDR or network.ipam was changed. A machine keeps the address that it was configured with, and etcd knows its members by theirs: it would be waited for in vain.",
    fix: "Give it back its address in nodes.*.ip, or make it anew: gpvectl talos replace MACHINE. Nothing was changed.",
  },
  "kernel-args-lost": {
    area: "machine",
    title: "Arguments of the kernel are gone after an upgrade",
    evidence: "the machine, and the arguments that it booted without",
    cause:
      "The installer is of another schematic than image.kernelArgs, or the machine boots with arguments of its own.",
    fix: "Put the arguments into image.kernelArgs, so that they are part of the schematic, and upgrade again. No other machine was touched.",
  },
  "front-missing": {
    area: "network",
    title: "There is no load balancer that could be switched",
    evidence: "the cluster",
    cause: "Only a load balancer whose configuration is made here can be turned to another cluster.",
    fix: "Set endpoint.loadBalancer with backendsManaged: haproxy, and let haproxy run with the file that render writes.",
  },
  "front-unnamed": {
    area: "network",
    title: "The other cluster's API does not answer to the load balancer's name",
    evidence: "the load balancer's address, and the names in the API's certificate",
    cause: "Clients compare the name they asked for with the certificate.",
    fix: "Add the address to endpoint.extraSANs of the other cluster's file, apply it, then switch.",
  },
  "front-held": {
    area: "network",
    title: "Two clusters would have one VIP",
    evidence: "the cluster that has it, or may still have it",
    cause:
      "endpoint.front.holds is true in both files, or a machine of the other cluster was not seen to have given it up. Two machines with one address answer in turn.",
    fix: "Leave holds as `gpvectl talos switch` writes it: set it to false in the file of the cluster that is not to have it, apply that file, then switch.",
  },
  "front-beside-vip": {
    area: "file",
    title: "A card of this contract has one VIP",
    evidence: "the keys",
    cause: "Before v1.12 a card's configuration names one VIP; endpoint.vip and endpoint.front are two.",
    fix: "Reach the cluster itself by endpoint.dns or endpoint.loadBalancer, or raise versions.contract.",
  },
  "front-unready": {
    area: "kubernetes",
    title: "The cluster to be switched to is not well",
    evidence: "the checks that failed",
    cause: "Machines, etcd, API or nodes are not as its file says.",
    fix: "gpvectl talos status -f FILE says more. Apply its file, then switch.",
  },
  "jump-refused": {
    area: "machine",
    title: "What is before the machines does not let us in",
    evidence: "user, host and port, and what ssh said; or the platform and what it said",
    cause:
      "providers.*.jump names a host whose key is not in knownHosts or has changed, that does not take the key of identityFile, or that does not answer; or with kind platform, a platform without lines to guests.",
    fix: "Try it by hand: ssh -o StrictHostKeyChecking=yes USER@HOST. Put the host's key, compared with its own, into knownHosts. With kind platform: gpvectl vm tunnel VM 50000 says the same; an older gpve must be upgraded, Proxmox VE needs a host.",
  },
  "machine-foreign": {
    area: "machine",
    title: "Another machine answers",
    evidence: "the address, and the identity that was expected and found",
    cause:
      "The address belongs to another machine, or the machine was configured with another cluster's secrets.",
    fix: "Find out who has the address. A machine of an older cluster is reset or deleted first. It was sent nothing.",
  },
  "bootstrap-unsure": {
    area: "etcd",
    title: "It is not certain that etcd was never begun",
    evidence: "the control planes that do not tell, or when the cluster was adopted",
    cause:
      "A control plane does not answer or its etcd has data, or the cluster was adopted while no machine that was shown had etcd; to begin etcd on another one would make two clusters.",
    fix: "Bring the machine back, or delete it if it is not needed. Then apply again. Where etcd of an adopted cluster was truly never begun, destroy the cluster and apply anew; where it is lost, restore a snapshot.",
  },
  "rotation-waits": {
    area: "machine",
    title: "Authorities are being replaced, and a machine is behind",
    evidence: "the machine, and what it is",
    cause:
      "The next phase would lock it out: it begins only when every machine, also one that is no longer in the file, has what the present phase is about.",
    fix: "Bring the machine back or remove it, then apply again: the rotation goes on where it stopped.",
  },
  "rotation-unproven": {
    area: "machine",
    title: "A machine or Kubernetes is not reached with the new authorities alone",
    evidence: "who was asked, and what happened",
    cause:
      "It still shows a certificate of the old authority. Old ones are removed only when everybody is reached without them.",
    fix: "Look at its console and logs (apid, trustd on control planes), reboot it if it does not renew its certificate, then apply again. Both authorities are accepted meanwhile.",
  },
  "rotation-early": {
    area: "machine",
    title: "There is nothing to rotate yet",
    evidence: "that nothing was ever applied",
    cause: "Authorities are replaced on machines that have one.",
    fix: "gpvectl talos apply first; before that, new secrets are as good.",
  },
  "etcd-lost": {
    area: "etcd",
    title: "etcd was begun before, and nobody has it",
    evidence: "when and where it was begun",
    cause: "All control planes were deleted or reset, or etcd does not start on any of them.",
    fix: "Restore a snapshot: gpvectl talos etcd restore FILE. For a new, empty cluster: gpvectl talos destroy, then apply.",
  },
  "drill-failed": {
    area: "etcd",
    title: "A scratch cluster does not come up from the snapshot",
    evidence: "what the scratch machine, its etcd and its Kubernetes say",
    cause:
      "The snapshot is of another cluster, was taken from a broken etcd, or the scratch machine cannot pull what it needs.",
    fix: "Look at the scratch machine, take a new snapshot with gpvectl talos etcd snapshot --verify, and drill that one.",
  },
  "etcd-not-begun": {
    area: "etcd",
    title: "etcd does not start",
    evidence: "what the machine says of itself",
    cause:
      "Its time is not in sync, its address is not in the network that etcd is told to use, or its images cannot be pulled.",
    fix: "Check that the time servers and registries are reachable from the machine, then apply again.",
  },
  "etcd-not-joined": {
    area: "etcd",
    title: "A control plane does not join etcd",
    evidence: "its state, and etcd's members",
    cause:
      "It does not reach the others on ports 2379, 2380 and 50001, or its address is not the one etcd is told to use.",
    fix: "Check the network between control planes; then reset and join it anew: gpvectl talos replace NAME.",
  },
  "etcd-unhealthy": {
    area: "etcd",
    title: "etcd is not well",
    evidence: "members that are not healthy, and alarms",
    cause: "A member is down, still learning, out of space, or members disagree.",
    fix: "Bring the member back first. Nothing was changed meanwhile.",
  },
  "quorum-at-risk": {
    area: "etcd",
    title: "etcd could lose its quorum",
    evidence: "the machine it is about, and why none can be spared",
    cause:
      "Only when all members are well, and enough of them are left, may one be away. Talos itself does not check it.",
    fix: "Bring all control planes back. With a single control plane, say that its API may be away: --accept-downtime.",
  },
  "quorum-lost": {
    area: "etcd",
    title: "etcd has lost its quorum",
    evidence: "members, and how many are healthy",
    cause: "More than half of the members are gone.",
    fix: "Bring members back; if they are gone for good: gpvectl talos etcd restore FILE.",
  },
  "workers-protected": {
    area: "file",
    title: "Fewer workers would be left than protect.minWorkers",
    evidence: "how many would be left",
    cause: "protect.minWorkers guards against a slip in a count, also in one of zero.",
    fix: "Raise the count, or lower protect.minWorkers; a cluster without workers needs 0.",
  },
  "nodes-away": {
    area: "kubernetes",
    title: "Too many nodes of a pool are away",
    evidence: "the nodes, and upgrade.maxUnavailable",
    cause: "Nodes of the pool are not ready or were cordoned by somebody else.",
    fix: "Bring them back (kubectl uncordon NODE), or raise upgrade.maxUnavailable.",
  },
  "talos-step": {
    area: "machine",
    title: "Talos cannot go from this version to that",
    evidence: "both versions",
    cause: "Talos is upgraded minor by minor, and does not go back a minor.",
    fix: "Set versions.talos to the newest patch of the next minor, apply, and go on from there.",
  },
  "kubernetes-step": {
    area: "kubernetes",
    title: "Kubernetes cannot go from this version to that",
    evidence: "both versions",
    cause: "Kubernetes is upgraded minor by minor, and does not go back a minor.",
    fix: "Set versions.kubernetes to a version of the next minor, apply, and go on from there.",
  },
  "upgrade-rolled-back": {
    area: "machine",
    title: "A machine is back with its old Talos",
    evidence: "the machine and its version",
    cause: "The new system did not boot, and Talos went back to the one before.",
    fix: "Look at its console for the reason. No other machine was upgraded.",
  },
  "drain-timeout": {
    area: "kubernetes",
    title: "A node cannot be emptied",
    evidence: "the pods that did not go",
    cause: "A disruption budget does not allow it, or a pod does not end.",
    fix: "Give the workload more replicas, or set the pool's upgrade.drain.policy to evict-then-delete. The machine was not touched.",
  },
  "kubernetes-silent": {
    area: "kubernetes",
    title: "The Kubernetes API does not answer",
    evidence: "the endpoint",
    cause: "API servers still pull their images, or the VIP or load balancer does not lead to them.",
    fix: "Check the endpoint; a VIP only works within one network and once etcd runs. Then apply again.",
  },
  "node-not-ready": {
    area: "kubernetes",
    title: "A node does not become ready",
    evidence: "what the machine and its node say",
    cause: "Mostly the network of pods: its images cannot be pulled, or MTUs do not fit.",
    fix: "kubectl describe node NAME names the condition. Then apply again.",
  },
  "addon-unhealthy": {
    area: "kubernetes",
    title: "An add-on does not become healthy",
    evidence: "the add-on and what is not ready",
    cause: "Its images cannot be pulled, or its values do not fit.",
    fix: "kubectl -n NAMESPACE get pods shows more. Later add-ons wait for it.",
  },
  "step-without-effect": {
    area: "platform",
    title: "A step was done and has no effect",
    evidence: "the step",
    cause: "Somebody else changes the same thing, or the platform did not do what it answered.",
    fix: "Look at the platform's task log, and whether another tool manages these machines.",
  },
  "operator-busy": {
    area: "file",
    title: "Somebody else is changing this cluster",
    evidence: "who, from where and since when",
    cause: "Another apply runs here, or elsewhere against the same machines.",
    fix: "Wait until it is over. If it was cut off, its mark is void after 15 minutes, or at once with --take-over.",
  },
  "destroy-protected": {
    area: "file",
    title: "The cluster may not be destroyed",
    evidence: "protect.destroy of its file",
    cause: "protect.destroy is true, as it is by default.",
    fix: "Set it to false, then: gpvectl talos destroy.",
  },
  "snapshot-target": {
    area: "etcd",
    title: "A bucket for snapshots cannot be used",
    evidence: "what was asked of it, and what it answered",
    cause:
      "backup.etcd.s3 is missing or wrong, its keys are not taken, or nobody answers there. The snapshot itself was taken and lies in .deployer.",
    fix: "Correct endpoint, region, bucket or keys, and take it again: gpvectl talos etcd snapshot --verify.",
  },
  "snapshot-missing": {
    area: "etcd",
    title: "The snapshot that was named is not there",
    evidence: "the path",
    cause: "A typo, another folder, or a snapshot that was deleted because newer ones are kept.",
    fix: "Look into .deployer/CLUSTER/snapshots, or name s3:latest where a bucket is configured.",
  },
  "snapshot-damaged": {
    area: "etcd",
    title: "A snapshot of etcd does not verify",
    evidence: "the file",
    cause: "Its last 32 bytes are not the checksum of the rest: it was cut off or changed.",
    fix: "Use another snapshot. Nothing was changed.",
  },
} as const satisfies Record<string, FindingKind>;
