// Findings of preflight and plan: what the platform lacks or refuses.
import type { FindingKind } from "./finding.ts";

export const platformFindings = {
  "platform-unreachable": {
    area: "platform",
    title: "The platform's API does not answer",
    evidence: "the URL and what happened",
    cause: "The host is down, the address or port is wrong, or a firewall is between.",
    fix: "Check that Proxmox VE or gpve is running and that the endpoint is reachable from here: curl -k URL/api2/json/version.",
  },
  "platform-untrusted": {
    area: "platform",
    title: "The platform's certificate is not trusted",
    evidence: "the URL, and the certificate's fingerprint",
    cause: "No authority known here has signed it, or it is another one than the file pins.",
    fix: "Compare the fingerprint with the platform's own (Node, System, Certificates) and pin it: tls: { fingerprint: … }; or give tls.caFile.",
  },
  "credentials-wrong": {
    area: "platform",
    title: "The token is refused",
    evidence: "the URL",
    cause: "The token does not exist, has expired, or is not written as USER@REALM!NAME=SECRET.",
    fix: "Make one (pveum user token add USER NAME) and put it where tokenRef points.",
  },
  "privilege-missing": {
    area: "platform",
    title: "The token lacks privileges",
    evidence: "the path and the privileges that are missing there",
    cause:
      "Tokens have no rights of their own until an ACL gives them some (privilege separation), or the role is too small.",
    fix: "Give the token a role with the privileges named, on the path named: pveum role add …; pveum acl modify PATH --tokens TOKEN --roles ROLE.",
  },
  "platform-version": {
    area: "platform",
    title: "The platform is too old",
    evidence: "its version",
    cause: "Disk images can be imported by the API from Proxmox VE 8.4 on.",
    fix: "Upgrade it, or import the image on the host itself (type: qm).",
  },
  "secureboot-needs-iso": {
    area: "image",
    title: "Secure boot needs the ISO with this Talos",
    evidence: "the version, and how machines boot",
    cause:
      "Disk images enrol their keys in the firmware from Talos 1.14 on; older ones fail at their first boot.",
    fix: "Set image.boot to iso, or use Talos 1.14.",
  },
  "secureboot-needs-uefi": {
    area: "image",
    title: "Secure boot needs UEFI",
    evidence: "the machine and its bios",
    cause: "Images of secure boot have no boot loader for a BIOS: the machine would not start.",
    fix: "Set machine.bios to ovmf, as it is by default, or image.secureboot to false.",
  },
  "tpm-without-secureboot": {
    area: "image",
    title: "Disks are to be opened by a TPM without secure boot",
    evidence: "talos.diskEncryption and image.secureboot",
    cause:
      "The TPM gives the key to whatever system it has measured as signed. Images without secure boot are not signed for it: Talos does not encrypt with it, or the key protects from nobody who can start another system.",
    fix: "Set image.secureboot to true (before machines are made), or talos.diskEncryption to static.",
  },
  "image-broken": {
    area: "image",
    title: "An archive cannot be unpacked",
    evidence: "the archive, and what the program said",
    cause: "It is incomplete, of another kind than its name says, or xz is not installed here.",
    fix: "Fetch it again and compare its checksum; apt-get install xz-utils.",
  },
  "node-missing": {
    area: "platform",
    title: "A node does not exist",
    evidence: "the name, and the nodes there are",
    cause: "providers.*.nodes names a node that this platform does not have.",
    fix: "Correct the name.",
  },
  "node-offline": {
    area: "platform",
    title: "A node is offline",
    evidence: "the node, and the machines that would be made there",
    cause:
      "It is switched off or cut off from the others. Where machines are to be made on it, it is an error; else the others are worked on.",
    fix: "Bring it back, put those machines elsewhere with nodes.NAME.host, or take it out of the provider's nodes.",
  },
  "storage-missing": {
    area: "platform",
    title: "A storage does not exist on a node",
    evidence: "storage, node, and the storages there are",
    cause: "The name is wrong, the storage is limited to other nodes, or it is not active.",
    fix: "Correct providers.*.storage, or enable the storage for this node.",
  },
  "storage-content": {
    area: "platform",
    title: "A storage does not take what it must hold",
    evidence: "the storage and the content that it lacks",
    cause:
      "Storages only take the kinds of content they are set up for: import for the image, images for disks.",
    fix: "Add the content: pvesm set STORAGE --content …, in Datacenter, Storage.",
  },
  "storage-full": {
    area: "platform",
    title: "A storage may run full",
    evidence: "what is free, and what the machines' disks can grow to",
    cause: "Disks are larger together than what is free. Thin ones fill up later, thick ones fail at once.",
    fix: "Free some space, use another storage, or smaller disks.",
  },
  "mapping-missing": {
    area: "platform",
    title: "A PCI device that a machine is to have is not mapped",
    evidence: "the mapping and the node, and the mappings there are or the nodes that it has devices on",
    cause:
      "machine.pci names a mapping that the platform does not have, or one without a device on the machine's node.",
    fix: "Map the device (Datacenter, Resource Mappings), or put the machine on a node that has one: nodes.*.host.",
  },
  "bridge-missing": {
    area: "network",
    title: "The bridge does not exist on a node",
    evidence: "bridge, node, and the bridges there are",
    cause: "network.bridge is misspelled, or this node's network is set up differently.",
    fix: "Create the bridge on that node, or correct network.bridge.",
  },
  "mtu-small": {
    area: "network",
    title: "The bridge carries less than machines would send",
    evidence: "the bridge's MTU on the node",
    cause:
      "network.mtu is auto, with which machines have an MTU of 1500; what is larger than the bridge's is lost. Small packets pass: images hang while they are pulled, and TLS begins and does not end.",
    fix: "Write the bridge's MTU into network.mtu, or raise the bridge's.",
  },
  "mtu-too-large": {
    area: "network",
    title: "The MTU is larger than the bridge's",
    evidence: "network.mtu, and the bridge's MTU on the node",
    cause: "Larger packets would be dropped silently between machines.",
    fix: "Lower network.mtu, or raise the bridge's.",
  },
  "guest-hidden": {
    area: "platform",
    title: "A machine answers, and the platform shows no guest of it",
    evidence: "the machine",
    cause:
      "The token lost VM.Audit on it, somebody took its tag talos-CLUSTER away, or its node is in no cluster with the others any more. It would be made anew and its member taken out of etcd, though it runs.",
    fix: "Give the token VM.Audit on the guest again, or the guest its tag. If it is to go, shut it down. Nothing was changed.",
  },
  "guest-unread": {
    area: "platform",
    title: "A guest of the cluster cannot be looked at",
    evidence: "its node, and what happened",
    cause:
      "Its node is off, or not reached by the others. The guest may be there as it was, and may even run: nothing is decided about it.",
    fix: "Bring the node back, then apply again. What could be done for the other machines was done.",
  },
  "address-taken": {
    area: "network",
    title: "An address belongs to another guest",
    evidence: "the address and the guest whose cloud-init configuration has it",
    cause: "The offsets lead into addresses that are in use.",
    fix: "Add the address to network.ipam.reserve, or change the offsets.",
  },
  "address-answers": {
    area: "network",
    title: "Somebody answers at an address that a new machine is to have",
    evidence: "the address, what answers there, and the MAC where it is in a network of this machine",
    cause:
      "Another machine has the address: an error when it answers in this machine's own network, a warning when it was only known there or answers through a gateway, where firewalls and proxies answer for others.",
    fix: "Find out whose it is (the MAC tells), and choose another: network.ipam.reserve, the offsets, nodes.*.ip, endpoint.vip. network.ipam.probe: false leaves addresses unasked.",
  },
  "time-source-silent": {
    area: "network",
    title: "No time server answers from here",
    evidence: "each server of network.ntp, and what happened",
    cause:
      "A name is misspelled, a firewall drops port 123 of UDP, or the server does not know the time itself. Machines wait for the time before etcd begins, and then it looks as if the bootstrap hung. Perhaps they reach a server that this machine does not.",
    fix: "Name a server in network.ntp that the machines reach: often the gateway, or the platform's own host. A clock of the host by /dev/ptp0 needs no network.",
  },
  "image-version-unknown": {
    area: "image",
    title: "The Image Factory does not have this version of Talos",
    evidence: "the factory, and the versions that are near",
    cause: "versions.talos is misspelled, not released yet, or called broken by the factory.",
    fix: "Use one of the versions named; gpvectl talos check-updates lists what there is.",
  },
  "image-source-silent": {
    area: "image",
    title: "The source of images does not answer from here",
    evidence: "each address that was asked, and what happened",
    cause:
      "Neither image.factory nor a mirror is reachable from here. Perhaps it is from the platform, which fetches the image itself.",
    fix: "Name a mirror in image.mirrors, or put the image into a folder: image.offlineDir.",
  },
  "vmid-taken": {
    area: "platform",
    title: "A VMID belongs to another guest",
    evidence: "the VMID and that guest's name",
    cause: "A guest without this cluster's tag and identity has it. It is never touched.",
    fix: "Choose other ranges in vmids, or nodes.*.vmid.",
  },
  "balancer-image-missing": {
    area: "platform",
    title: "The image of the load balancer's machine is not there",
    evidence: "the volume and the node that lacks it",
    cause:
      "endpoint.loadBalancer.backendsManaged is vm, and its machine is made from lb.qcow2 in the image storage.",
    fix: "On gpve: `gpvectl image build lb --storage NAME`. On Proxmox VE: upload the lb.qcow2 that a gpve made, as a disk image to import.",
  },
  "template-vmid-taken": {
    area: "platform",
    title: "A template's VMID belongs to another guest",
    evidence: "the template's name and the VMID",
    cause:
      "templates.controlPlane or templates.worker names a VMID that a guest has which is no template of this cluster. It is never touched.",
    fix: "Choose another VMID, or leave the key out: the first free one of vmids.template is taken.",
  },
  "template-in-use": {
    area: "platform",
    title: "A template that should go is still read from",
    evidence: "the template and the VMIDs of the linked clones",
    cause: "Somebody made a linked clone of it meanwhile. Its disks are part of that guest.",
    fix: "Nothing: it goes with the first apply after its last linked clone. To be rid of it earlier, move that guest's disks to a storage of their own.",
  },
  "memory-tight": {
    area: "platform",
    title: "Memory is tight on a node",
    evidence: "what the machines need, what is free, and the reserve",
    cause: "The machines' memory and what is in use come close to what the node has.",
    fix: "It may work; machines that use all of it will be slow or killed. Give them less, or use more nodes.",
  },
  "memory-short": {
    area: "platform",
    title: "A machine has more memory than its node",
    evidence: "both sizes",
    cause: "It could never start.",
    fix: "Give it less, or place it elsewhere.",
  },
  "cores-exceeded": {
    area: "platform",
    title: "A machine has more cores than its node",
    evidence: "both numbers",
    cause: "The platform refuses to start it.",
    fix: "Give it fewer cores, or place it elsewhere.",
  },
  "pool-missing": {
    area: "platform",
    title: "The pool does not exist",
    evidence: "the pool's name",
    cause: "providers.*.pool names none of the platform's pools.",
    fix: "Create it: pveum pool add NAME, or correct the name.",
  },
  "cpu-too-old": {
    area: "platform",
    title: "The CPU model is too old for Talos",
    evidence: "the machine and its CPU model",
    cause: "Talos needs x86-64-v2; older models restart in a loop at the kernel's start.",
    fix: "Use host, or x86-64-v2-AES where machines must move between different hosts.",
  },
  "scsi-single": {
    area: "platform",
    title: "A machine's disks have a controller each",
    evidence: "the machine and its scsihw",
    cause: "With virtio-scsi-single, hangs of Talos are reported from some Intel hosts; on others it works.",
    fix: "Use machine.scsihw: virtio-scsi-pci, which is what machines get by themselves, unless you know that it works on these hosts.",
  },
  "machine-small": {
    area: "platform",
    title: "A machine is smaller than Talos recommends",
    evidence: "the machine and its size",
    cause: "Control planes should have 2 cores and 2 GiB, every machine 1 GiB and a disk of 10 GiB.",
    fix: "Give it more, unless it is for trying things out.",
  },
  "platform-of-image": {
    area: "image",
    title: "The image would lose its addresses",
    evidence: "image.platform",
    cause:
      "An image for metal does not read the cloud-init drive by which machines get their static addresses.",
    fix: "Use image.platform: nocloud.",
  },
  "disk-shrinks": {
    area: "platform",
    title: "A disk would have to shrink",
    evidence: "its size and the one in the file",
    cause: "Disks can only grow; what is on the part that would go is lost.",
    fix: "Write at least its present size, or replace the machine.",
  },
  "replace-needed": {
    area: "platform",
    title: "The file says of a machine what only a new one gets",
    evidence: "what it has, and what the file says",
    cause:
      "Firmware, the place of the cloud-init drive, the storage of disks that are there and the mappings of devices that are there are given to machines when they are made.",
    fix: "gpvectl talos replace MACHINE, or write in the file what it has.",
  },
  "arch-needs-root": {
    area: "platform",
    title: "The architecture can only be set by root",
    evidence: "the pool and its architecture",
    cause: "Proxmox VE lets only root@pam set arch, and no token.",
    fix: "Run it on the host (type: qm), or on gpve.",
  },
  "updates-unknown": {
    area: "image",
    title: "No Image Factory says which versions there are",
    evidence: "each address that was asked, and what happened",
    cause: "Neither image.factory nor a mirror is reachable from here, or what answers is no Image Factory.",
    fix: "Open `image.factory`/versions in a browser from here; name a mirror that you reach in image.mirrors.",
  },
  "image-file-missing": {
    area: "image",
    title: "The offline directory has no image for a machine",
    evidence: "the file that is looked for, and the images that are there",
    cause:
      "image.offlineDir is set, so nothing is downloaded: the image must lie there under its full name, which carries version and schematic. Only qcow2 is taken.",
    fix: "Fetch it elsewhere (gpvectl talos output shows its address) and put it there under the name given. A raw.xz is made into one with: xz -dk FILE.raw.xz; qemu-img convert -O qcow2 FILE.raw NAME.",
  },
  "image-changed": {
    area: "image",
    title: "An image is another one than was used before",
    evidence: "the file, its SHA-256, and the one that is pinned",
    cause:
      "The file in image.offlineDir was replaced or damaged since the first upload, or is not the one image.sha256 names.",
    fix: "Put the first file back. If the new one is right, correct image.sha256, or accept it: gpvectl talos image accept NAME. Nothing was uploaded.",
  },
  "image-rebuilt": {
    area: "image",
    title: "An image that the platform fetched is another one than the first time",
    evidence: "the address, the SHA-256 of what came from there, and the one that is pinned",
    cause:
      "An Image Factory builds disk images when they are asked for, and builds one again that it no longer has; nobody promises that both are the same bytes. It may also be another factory or mirror, a transfer that broke, or somebody who changed it.",
    fix: "Find out why. Fetch the first one from a mirror that still has it (image.mirrors), or from a folder (image.offlineDir). If the new one is right, correct image.sha256 where the file has one, else accept it: gpvectl talos image accept NAME. The platform kept nothing, and nothing was deleted.",
  },
  "image-not-pinned": {
    area: "image",
    title: "What the platform fetched is held to no checksum",
    evidence: "when it was fetched, and why it could not be read from here",
    cause:
      "An image is read once from here, for its SHA-256, before the platform is told to fetch it. From here its address could not be read, so the platform took what it was given, and another node may be given something else.",
    fix: "Set image.sha256, or gpvectl talos image accept NAME --sha256 SUM, with the sum of a file that you trust; or run gpvectl where the factory or a mirror can be read. The next fetch tries again by itself.",
  },
  "image-upload-impossible": {
    area: "image",
    title: "Images cannot be uploaded this way",
    evidence: "the provider",
    cause: "The commands of a gpve node take no files of the server; only its API does.",
    fix: "Use type: gpve with an endpoint and a token, or put the image onto the storage first: gpvectl storage upload STORAGE FILE --content import.",
  },
  "installer-missing": {
    area: "image",
    title: "A machine cannot pull the installer of the version it is to be upgraded to",
    evidence: "the image and what the machine said",
    cause:
      "The Image Factory has no such version, was not told of the schematic, or the machine does not reach it: machines pull from the host of image.factory, or from its mirror in talos.registries.mirrors.",
    fix: "Compare the version with gpvectl talos check-updates, and that machines reach the host of image.factory. Nothing was drained.",
  },
  "image-refused": {
    area: "image",
    title: "The Image Factory refuses the image's schematic",
    evidence: "the factory and its status",
    cause: "An extension or kernel argument is not known there.",
    fix: "Check image.extensions and image.kernelArgs; the factory lists extensions below /version/VERSION/extensions/official.",
  },
} as const satisfies Record<string, FindingKind>;
