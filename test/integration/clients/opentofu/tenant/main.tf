# What the administrator of a tenant makes in it: a VM, and a user who may start and stop VMs. Nobody in the VM would hear
# that it is to shut down, so only the user is changed. Another pool, or a guest
# of somebody else to clone, is out of his reach.
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
variable "pool" { type = string }
variable "clones" {
  type    = list(number)
  default = []
}
variable "changed" {
  type    = bool
  default = false
}

provider "proxmox" {}

resource "proxmox_virtual_environment_vm" "web" {
  name            = "web"
  tags            = ["tofu"]
  node_name       = var.node
  vm_id           = var.vmid
  pool_id         = var.pool
  machine         = "q35"
  scsi_hardware   = "virtio-scsi-single"
  stop_on_destroy = true
  dynamic "clone" {
    for_each = var.clones
    content {
      vm_id = clone.value
      full  = true
    }
  }
  cpu {
    cores = 1
    type  = "x86-64-v2-AES"
  }
  memory { dedicated = 64 }
  dynamic "disk" {
    for_each = length(var.clones) == 0 ? [1] : []
    content {
      datastore_id = "local"
      interface    = "scsi0"
      size         = 1
      file_format  = "qcow2"
    }
  }
  network_device {
    bridge = var.bridge
    model  = "virtio"
  }
  operating_system { type = "l26" }
  serial_device {}
}

resource "proxmox_virtual_environment_user" "operator" {
  user_id  = "tofu-${var.pool}@pve"
  comment  = var.changed ? "changed" : "operator"
  password = "a long secret"
  enabled  = true
  acl {
    path      = "/pool/${var.pool}"
    propagate = true
    role_id   = "vm-operator"
  }
}
