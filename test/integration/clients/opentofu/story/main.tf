# A pool, a role, a user with rights, and a VM cloned from a template: made, changed when `changed` is set, taken away.
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
variable "template" { type = number }
variable "changed" {
  type    = bool
  default = false
}

provider "proxmox" {}

resource "proxmox_virtual_environment_pool" "lab" {
  pool_id = "tofu-lab"
  comment = var.changed ? "changed" : "made by OpenTofu"
}

resource "proxmox_virtual_environment_role" "operator" {
  role_id    = "TofuOperator"
  privileges = var.changed ? ["VM.Audit", "VM.Console", "VM.PowerMgmt"] : ["VM.Audit", "VM.PowerMgmt"]
}

resource "proxmox_virtual_environment_group" "ops" {
  group_id = "tofu-ops"
  comment  = "ops"
  acl {
    path      = "/storage"
    propagate = true
    role_id   = "PVEDatastoreUser"
  }
}

resource "proxmox_virtual_environment_user" "operator" {
  user_id    = "tofu-operator@pve"
  comment    = var.changed ? "changed" : "operator"
  password   = var.changed ? "another secret" : "a long secret"
  email      = "op@example.org"
  first_name = "Op"
  last_name  = "Erator"
  groups     = [proxmox_virtual_environment_group.ops.group_id]
  enabled    = true
  acl {
    path      = "/pool/${proxmox_virtual_environment_pool.lab.pool_id}"
    propagate = true
    role_id   = proxmox_virtual_environment_role.operator.role_id
  }
}

resource "proxmox_virtual_environment_user_token" "ci" {
  user_id               = proxmox_virtual_environment_user.operator.user_id
  token_name            = "ci"
  comment               = var.changed ? "changed" : "for CI"
  privileges_separation = true
  expiration_date       = "2037-01-01T22:00:00Z"
}

resource "proxmox_virtual_environment_acl" "vms" {
  token_id  = proxmox_virtual_environment_user_token.ci.id
  role_id   = "PVEVMUser"
  path      = "/vms/${proxmox_virtual_environment_vm.clone.vm_id}"
  propagate = var.changed
}

resource "proxmox_virtual_environment_download_file" "image" {
  content_type = "iso"
  datastore_id = "local"
  node_name    = var.node
  url          = "${var.web}/tiny.qcow2"
  file_name    = "tiny.img"
}

# A template that the provider makes itself: PVE gives it plain disks, so only full clones come of it.
resource "proxmox_virtual_environment_vm" "template" {
  name          = "tofu-template"
  node_name     = var.node
  vm_id         = var.template + 2
  template      = true
  started       = false
  machine       = "q35"
  scsi_hardware = "virtio-scsi-single"
  cpu {
    cores = 1
    type  = "x86-64-v2-AES"
  }
  memory { dedicated = 128 }
  disk {
    datastore_id = "local"
    interface    = "scsi0"
    size         = 1
    file_format  = "qcow2"
    discard      = "on"
  }
  network_device { bridge = var.bridge }
  operating_system { type = "l26" }
  serial_device {}
}

resource "proxmox_virtual_environment_vm" "clone" {
  name            = var.changed ? "tofu-renamed" : "tofu-clone"
  description     = var.changed ? "changed\nin two lines" : "cloned by OpenTofu"
  tags            = var.changed ? ["blue", "tofu"] : ["tofu"]
  node_name       = var.node
  vm_id           = var.template + 1
  pool_id         = proxmox_virtual_environment_pool.lab.pool_id
  stop_on_destroy = true
  machine         = "q35"
  scsi_hardware   = "virtio-scsi-single"
  clone {
    vm_id = var.template
    full  = true
  }
  cpu {
    cores = var.changed ? 2 : 1
    type  = "x86-64-v2-AES"
  }
  memory {
    dedicated = var.changed ? 192 : 128
    floating  = var.changed ? 192 : 128
  }
  disk {
    datastore_id = "local"
    interface    = "scsi0"
    size         = var.changed ? 3 : 2
    file_format  = "qcow2"
    discard      = "on"
  }
  network_device {
    bridge = var.bridge
    model  = "virtio"
    mtu    = var.changed ? 1400 : 0
  }
  dynamic "network_device" {
    for_each = var.changed ? [1] : []
    content {
      bridge       = var.bridge
      disconnected = true
      rate_limit   = 2
    }
  }
  agent {
    enabled = true
    timeout = "3m"
  }
  initialization {
    interface    = "scsi4"
    datastore_id = "local"
    dns {
      domain  = "example.org"
      servers = ["10.88.0.1"]
    }
    ip_config {
      ipv4 {
        address = var.changed ? "10.88.0.3/24" : "10.88.0.2/24"
        gateway = "10.88.0.1"
      }
    }
    user_account {
      username = "admin"
      password = "correct horse"
      keys     = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJqVf0mC8Xc9xkYqJm3TzV0rZq2ZkT1cJq2m4l8Xo1aB tofu@example.org"]
    }
  }
  operating_system { type = "l26" }
  serial_device {}
  startup {
    order      = "3"
    up_delay   = "6"
    down_delay = "6"
  }
}

# A linked clone that is never started.
resource "proxmox_virtual_environment_vm" "linked" {
  name          = "tofu-linked"
  node_name     = var.node
  vm_id         = var.template + 3
  started       = false
  machine       = "q35"
  scsi_hardware = "virtio-scsi-single"
  clone {
    vm_id = var.template
    full  = false
  }
  memory { dedicated = var.changed ? 96 : 64 }
  network_device { bridge = var.bridge }
  operating_system { type = "l26" }
  serial_device {}
}
