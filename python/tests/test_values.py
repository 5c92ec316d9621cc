"""Values: enumerations, records, arguments and settings."""

from __future__ import annotations

import copy
import ctypes
import pickle
import struct
import weakref

import pytest

import simpler
from simpler import AccessMode, AddressSpace, BackendKind, CallConfig, DataType, TaskArgs, TensorArgType
from simpler.buffer import BufferDescriptor, CanonicalIdentity, Tensor
from simpler.task_interface import ChipStorageTaskArgs, ChipTensor, get_dtype_name, get_element_size, scalar_to_uint64

IDENTITY = CanonicalIdentity(b"\x00\x11\x22\x33\x44\x55\x66\x77", 5)


def descriptor(nbytes: int = 64, access: AccessMode | str = "READWRITE") -> BufferDescriptor:
    return BufferDescriptor(IDENTITY, "HOST", access, "POSIX_SHM", nbytes, b"12.34")


def tensor(shape: tuple[int, ...] = (4,), dtype: str = "FLOAT32", access: str = "READWRITE") -> Tensor:
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = max(1, strides[i + 1] * shape[i + 1])
    return Tensor(descriptor(access=access), 0, shape, strides, dtype)


def test_enumerations_have_the_documented_numbers() -> None:
    assert [member.value for member in DataType] == list(range(15))
    assert (DataType.BFLOAT16, DataType.UINT32, DataType.FP4E2M1) == (6, 10, 14)
    assert [member.name for member in TensorArgType] == ["INPUT", "OUTPUT", "INOUT", "OUTPUT_EXISTING", "NO_DEP"]
    assert (BackendKind.FORK_COW, AddressSpace.DEVICE, AccessMode.READWRITE) == (5, 1, 2)


def test_enumerations_are_found_by_name_and_say_what_there_is() -> None:
    assert DataType.of("float32") is DataType.FLOAT32
    with pytest.raises(ValueError, match="FLOAT16"):
        DataType.of("double")


@pytest.mark.parametrize("given", [DataType.INT16, 3, "INT16", "int16", type("t", (), {"name": "int16"})()])
def test_an_element_type_may_be_given_in_any_form(given: object) -> None:
    assert get_dtype_name(given) == "INT16"
    assert get_element_size(given) == 2  # type: ignore[arg-type]


def test_an_unknown_element_type_is_named() -> None:
    with pytest.raises(ValueError, match="dtype=99"):
        get_element_size(99)
    with pytest.raises(TypeError, match="dtype"):
        get_element_size(None)  # type: ignore[arg-type]


def test_identities_compare_by_their_three_fields() -> None:
    same = CanonicalIdentity(owner_instance_id=b"\x00\x11\x22\x33\x44\x55\x66\x77", buffer_id=5, generation=1)
    assert same == IDENTITY
    assert hash(same) == hash(IDENTITY)
    assert CanonicalIdentity(IDENTITY.owner_instance_id, 5, 2) != IDENTITY
    with pytest.raises(ValueError, match="3 bytes"):
        CanonicalIdentity(b"abc", 1)


def test_a_descriptor_is_checked_where_it_is_made() -> None:
    for wrong in (
        lambda: BufferDescriptor(IDENTITY, "HOST", "READ", "POSIX_SHM", 1, b"x" * 33),
        lambda: BufferDescriptor(CanonicalIdentity(b"\0" * 8, 1, 0), "HOST", "READ", "POSIX_SHM", 1, b"a"),
        lambda: BufferDescriptor(IDENTITY, "HOST", "READ", "DEVICE_MALLOC", 1, b"\1" * 8),
        lambda: BufferDescriptor(IDENTITY, "HOST", "READWRITE", "FORK_COW", 1, b"\1" * 8),
        lambda: BufferDescriptor(IDENTITY, "HOST", "READ", "FORK_SHM", 1, b"\0" * 8),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - five different texts
            wrong()


def test_records_pickle_as_equal_values() -> None:
    for value in (IDENTITY, descriptor(), tensor()):
        assert pickle.loads(pickle.dumps(value)) == value
    assert pickle.loads(pickle.dumps(DataType.INT8)) is DataType.INT8


def test_a_tensor_is_read_only_and_reads_its_type_back_as_a_number() -> None:
    view = Tensor(descriptor(), 8, (2, 3), (4, 1), DataType.INT16)
    assert (view.dtype, view.shapes, view.strides, view.byte_offset, view.ndims) == (3, (2, 3), (4, 1), 8, 2)
    assert type(view.dtype) is int
    assert view.buffer == descriptor()
    with pytest.raises(AttributeError):
        view.byte_offset = 0  # type: ignore[misc]
    with pytest.raises(TypeError, match="unhashable"):
        hash(view)


@pytest.mark.parametrize(
    ("offset", "shape", "strides", "dtype"),
    [
        (0, (), (), "INT8"),
        (0, (1,) * 6, (1,) * 6, "INT8"),
        (0, (2,), (1, 1), "INT8"),
        (0, (65,), (1,), "INT8"),
        (2, (1,), (1,), "INT32"),
    ],
)
def test_a_view_that_does_not_fit_is_refused(offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each has its own text
        Tensor(descriptor(), offset, shape, strides, dtype)


def test_arguments_take_tensors_first_and_count_both() -> None:
    args = TaskArgs()
    args.add_tensor(tensor())
    args.add_tensor(tensor(), TensorArgType.INOUT)
    args.add_scalar(-1)
    args.add_scalar(1.5)
    assert (len(args), args.tensor_count(), args.scalar_count()) == (4, 2, 2)
    assert args.tag(0) is TensorArgType.INPUT
    assert args.tag(1) is TensorArgType.INOUT
    assert args.tensor(1) == tensor()
    assert args.scalar(0) == 2**64 - 1
    assert args.scalar(1) == struct.unpack("<I", struct.pack("<f", 1.5))[0]
    with pytest.raises(RuntimeError, match="tensors come first"):
        args.add_tensor(tensor())
    args.clear()
    assert len(args) == 0


def test_arguments_can_be_written_as_one_chain() -> None:
    one = tensor()
    args = TaskArgs()
    chained = args.input(one).output(one).inout(one).no_dep(one).add_tensor(one, "OUTPUT").add_scalar(7)
    assert chained is args
    tags = [TensorArgType.INPUT, TensorArgType.OUTPUT_EXISTING, TensorArgType.INOUT, TensorArgType.NO_DEP, TensorArgType.OUTPUT]
    assert [args.tag(i) for i in range(5)] == tags
    assert args.scalar(0) == 7


def test_a_tag_may_be_changed_within_the_access_that_the_buffer_grants() -> None:
    args = TaskArgs()
    args.add_tensor(tensor(access="READ"))
    args.set_tag(0, "NO_DEP")
    assert args.tag(0) is TensorArgType.NO_DEP
    with pytest.raises(ValueError, match="READ"):
        args.set_tag(0, TensorArgType.INOUT)
    with pytest.raises(ValueError, match="OUTPUT_EXISTING"):
        args.add_tensor(tensor(access="READ"), "OUTPUT_EXISTING")
    for call in (args.tensor, args.tag, args.scalar):
        with pytest.raises(IndexError):
            call(7)


def test_arguments_carry_attributes_and_weak_references() -> None:
    args = TaskArgs()
    args.note = "mine"  # type: ignore[attr-defined]
    assert weakref.ref(args)() is args


@pytest.mark.parametrize("given", [b"1234", [1, 2], object()])
def test_other_things_than_tensors_are_refused_naming_create_buffer(given: object) -> None:
    with pytest.raises(TypeError, match="create_buffer"):
        TaskArgs().add_tensor(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "bits"),
    [
        (True, 1),
        (-2, 2**64 - 2),
        (2**64 - 1, 2**64 - 1),
        (1.0, 0x3F800000),
        (ctypes.c_int16(-1), 2**64 - 1),
        (ctypes.c_float(-2.0), 0xC0000000),
        (ctypes.c_double(1.0), 0x3FF0000000000000),
    ],
)
def test_scalars_travel_as_64_bits(given: float, bits: int) -> None:
    assert scalar_to_uint64(given) == bits


def test_a_scalar_that_is_none_or_does_not_fit_is_refused() -> None:
    with pytest.raises(TypeError, match="str"):
        scalar_to_uint64("1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="64 bits"):
        scalar_to_uint64(2**64)


def test_settings_move_switches_into_their_range() -> None:
    config = CallConfig()
    config.enable_chip_swimlane = True
    config.enable_dump_args = 17
    assert (config.enable_chip_swimlane, config.enable_dump_args) == (4, 3)
    config.output_prefix = "ümlaut"
    assert config.output_prefix == "ümlaut"
    with pytest.raises(ValueError, match=r"[0-9]+"):
        config.output_prefix = "x" * 1024


def test_settings_hand_out_their_ring_sizes_by_reference() -> None:
    config = CallConfig()
    config.runtime_env.ring_heap = 4096
    config.runtime_env.ring_task_window = [4, 8, 16, 32]
    assert config.runtime_env.ring_heap == [4096] * 4
    assert config.runtime_env.ring_task_window == [4, 8, 16, 32]
    with pytest.raises(ValueError, match="2 values"):
        config.runtime_env.ring_heap = [1, 2]


def test_settings_are_validated_and_copied_by_value() -> None:
    config = CallConfig()
    config.enable_scope_stats = True
    with pytest.raises(ValueError, match="output_prefix"):
        config.validate()
    config.output_prefix = "here"
    config.validate()
    other = copy.deepcopy(config)
    assert other == config
    other.aicpu_thread_num = 3
    assert other != config
    assert pickle.loads(pickle.dumps(other)) == other


def test_a_chip_takes_tensors_before_scalars_in_one_record() -> None:
    args = ChipStorageTaskArgs()
    args.add_tensor(ChipTensor.make(4096, (2, 3), "FLOAT16"))
    args.add_scalar(7)
    assert (args.tensor(0).shapes, args.tensor(0).nbytes(), args.scalar(0), len(args)) == ([2, 3], 12, 7, 2)
    assert ChipStorageTaskArgs.sizeof() == 19464
    assert args.__ptr__() != 0
    with pytest.raises(RuntimeError, match="tensors come first"):
        args.add_tensor(ChipTensor())
    with pytest.raises(IndexError):
        args.scalar(1)


def test_kernels_are_found_by_name() -> None:
    assert simpler.kernels.matmul.builtin == "matmul"
    assert simpler.kernels.matmul.sig_count == 5
    assert "softmax" in dir(simpler.kernels)
    with pytest.raises(AttributeError, match="did you mean 'matmul'"):
        _ = simpler.kernels.matmull
