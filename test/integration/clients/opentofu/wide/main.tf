# A VM from scratch with most kinds of devices, files, options of the cluster, and what the provider can read.
terraform {
  required_providers {
    proxmox = {
      source = "bpg/proxmox"
    }
  }
}
variable "node" { type = string }
variable "web" { type = string }
variable "bridge" { type = string }
variable "vmid" { type = number }
variable "image" { type = string }
variable "iso" { type = string }
variable "changed" {
  type    = bool
  default = false
}

provider "proxmox" {}

resource "proxmox_virtual_environment_download_file" "image" {
  content_type       = "iso"
  datastore_id       = "local"
  node_name          = var.node
  url                = "${var.web}/tiny.qcow2"
  file_name          = "tofu-down.img"
  checksum           = filesha256(var.image)
  checksum_algorithm = "sha256"
}

resource "proxmox_virtual_environment_file" "iso" {
  content_type = "iso"
  datastore_id = "local"
  node_name    = var.node
  source_file {
    path      = var.iso
    file_name = "tofu-up.iso"
  }
}

resource "proxmox_virtual_environment_vm" "scratch" {
  name            = "tofu-scratch"
  description     = "from scratch"
  tags            = ["a", "b"]
  node_name       = var.node
  vm_id           = var.vmid
  bios            = "ovmf"
  machine         = "q35"
  on_boot         = false
  started         = false
  stop_on_destroy = true
  boot_order      = ["scsi0", "ide0"]
  scsi_hardware   = "virtio-scsi-single"
  protection      = false
  tablet_device   = false
  keyboard_layout = "de"
  agent {
    enabled = false
  }
  cpu {
    cores   = 2
    sockets = 1
    type    = "x86-64-v2-AES"
    flags   = ["+aes", "-pcid"]
    limit   = 2
    units   = 200
    numa    = true
  }
  memory {
    dedicated = var.changed ? 512 : 256
  }
  smbios {
    manufacturer = "gpve"
    product      = "test"
    serial       = "abc-1"
  }
  startup {
    order      = "4"
    up_delay   = "1"
    down_delay = "2"
  }
  efi_disk {
    datastore_id      = "local"
    file_format       = "raw"
    type              = "4m"
    pre_enrolled_keys = true
  }
  tpm_state {
    datastore_id = "local"
    version      = "v2.0"
  }
  cdrom {
    enabled   = true
    file_id   = proxmox_virtual_environment_file.iso.id
    interface = "ide0"
  }
  disk {
    datastore_id = "local"
    interface    = "scsi0"
    size         = 1
    file_format  = "qcow2"
    iothread     = true
    discard      = "on"
    ssd          = true
    serial       = "disk-one"
    cache        = "writeback"
    backup       = false
  }
  disk {
    datastore_id = "local"
    interface    = "virtio0"
    size         = var.changed ? 2 : 1
    file_format  = "raw"
  }
  dynamic "disk" {
    for_each = var.changed ? [1] : []
    content {
      datastore_id = "local"
      interface    = "sata0"
      size         = 1
      file_format  = "raw"
    }
  }
  network_device {
    bridge      = var.bridge
    model       = "virtio"
    mac_address = "BC:24:11:00:88:04"
    queues      = 2
    firewall    = true
  }
  operating_system {
    type = "l26"
  }
  vga {
    type   = "virtio"
    memory = 32
  }
  serial_device {
    device = "socket"
  }
}

resource "proxmox_virtual_environment_cluster_options" "options" {
  language    = "en"
  keyboard    = "en-us"
  email_from  = "ops@example.org"
  max_workers = var.changed ? 6 : 5
  mac_prefix  = "BC:24:11"
  description = "options"
  next_id     = { lower = 200, upper = 90000 }
}


resource "proxmox_virtual_environment_hardware_mapping_usb" "key" {
  name    = "tofu-usb"
  comment = "a key"
  map     = [{ id = "1234:5678", node = var.node, comment = var.changed ? "y" : "x" }]
}

resource "proxmox_virtual_environment_hardware_mapping_pci" "card" {
  name    = "tofu-pci"
  comment = "a card"
  map = [{
    id   = "8086:1237"
    node = var.node
    path = "0000:00:00.0"
  }]
}

data "proxmox_virtual_environment_version" "v" {}
data "proxmox_virtual_environment_nodes" "v" {}
data "proxmox_virtual_environment_node" "v" { node_name = var.node }
data "proxmox_virtual_environment_vms" "v" {
  tags       = ["a"]
  depends_on = [proxmox_virtual_environment_vm.scratch]
}
data "proxmox_virtual_environment_vm" "v" {
  node_name = var.node
  vm_id     = proxmox_virtual_environment_vm.scratch.vm_id
}
data "proxmox_virtual_environment_datastores" "v" { node_name = var.node }
data "proxmox_virtual_environment_pools" "v" {}
data "proxmox_virtual_environment_users" "v" {}
data "proxmox_virtual_environment_roles" "v" {}
data "proxmox_virtual_environment_groups" "v" {}
data "proxmox_virtual_environment_role" "v" { role_id = "PVEAdmin" }
data "proxmox_virtual_environment_user" "v" { user_id = "root@pam" }
data "proxmox_virtual_environment_dns" "v" { node_name = var.node }
data "proxmox_virtual_environment_hosts" "v" { node_name = var.node }
data "proxmox_virtual_environment_time" "v" { node_name = var.node }
data "proxmox_virtual_environment_hagroups" "v" {}
data "proxmox_virtual_environment_haresources" "v" {}

data "proxmox_virtual_environment_hardware_mappings" "v" {
  check_node = var.node
  type       = "usb"
  depends_on = [proxmox_virtual_environment_hardware_mapping_usb.key]
}

output "seen" {
  value = {
    version    = data.proxmox_virtual_environment_version.v.version
    nodes      = data.proxmox_virtual_environment_nodes.v.names
    cpus       = data.proxmox_virtual_environment_node.v.cpu_count
    vms        = data.proxmox_virtual_environment_vms.v.vms[*].name
    vm         = data.proxmox_virtual_environment_vm.v.name
    datastores = data.proxmox_virtual_environment_datastores.v.datastore_ids
    users      = contains(data.proxmox_virtual_environment_users.v.user_ids, "root@pam")
    roles      = length(data.proxmox_virtual_environment_roles.v.role_ids)
    zone       = data.proxmox_virtual_environment_time.v.time_zone
    ha         = data.proxmox_virtual_environment_haresources.v.resource_ids
    mappings   = data.proxmox_virtual_environment_hardware_mappings.v.ids
  }
}
